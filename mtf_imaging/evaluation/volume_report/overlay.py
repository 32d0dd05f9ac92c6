"""Slices of a case with outlines of reference and prediction, small enough to return from a worker process."""

import functools
import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.sources import VoxelSource
from mtf_imaging.evaluation.report.outline import outline
from mtf_imaging.evaluation.volume_report.image_planes import read_planes, to_gray
from mtf_imaging.evaluation.volume_report.planes import Plane, find_focus, shown_planes
from mtf_imaging.evaluation.volume_scores.surface import around, bounding_box
from mtf_imaging.evaluation.volume_scores.voxels import Region, Voxels, VoxelView, whole

MARGIN_MM = 15.0  # margin around the masks, in voxels
_QUALITY = 80  # JPEG quality that preserves sharp edges and the texture of noise


@dataclass(frozen=True)
class View:
    """A slice of a case, cropped to the box around its masks.

    Attributes:
      plane: the plane and its orientation in the picture.
      voxels: columns and rows of the picture.
      mm: width and height of the picture in mm.
      position: position in mm along the perpendicular axis, computed with the affine; it increases to the patient's
        right, front or head.
      number: the slice number along this axis, counted from 1.
      of: the number of slices along this axis.
      image: the image as JPEG, or None if there is no image.
      outlines: `{("reference", "liver"): path, ...}`; see `outline`. Masks without voxels on the slice are omitted.
    """

    plane: Plane
    voxels: tuple[int, int]
    mm: tuple[float, float]
    position: float
    number: int
    of: int
    image: bytes | None
    outlines: dict[tuple[str, str], str]


@dataclass(frozen=True)
class Overlays:
    """The slices of a case.

    Attributes:
      what: a description of the point where the slices meet, for the report.
      views: the axial, coronal and sagittal view.
    """

    what: str
    views: tuple[View, ...]


def make_overlays(
    hu: VoxelSource | None,
    reference: Voxels,
    prediction: Voxels,
    affine: np.ndarray,
    description: Description = LITS,
) -> Overlays:
    """Creates the slices of a case through its largest lesion; see `find_focus`.

    Args:
      hu: the source of the first channel of the image, which is read once, or None; see `read_planes`.
      reference: labels `[x, y, z]` of the reference: an array, or another volume that can be read in parts.
      prediction: labels `[x, y, z]` of the prediction.
      affine: `[4, 4]`, canonical voxel index -> mm in RAS+.
      description: the meaning of the labels and channels.
    """
    focus = find_focus(reference, prediction, description)
    image = None if hu is None else read_planes(hu, focus.point, description)
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    box = _shown_box(reference, prediction, spacing, description)
    place = affine @ [*focus.point, 1.0]
    views = []
    for plane in shown_planes(reference.shape, description):
        index = focus.point[plane.across]
        masks = {
            (who, name): description.mask(name, plane.cut(labels, index, box))
            for who, labels in (("reference", reference), ("prediction", prediction))
            for name in description.masks
        }
        rows, columns = next(iter(masks.values())).shape
        view = View(
            plane=plane,
            voxels=(columns, rows),
            mm=(float(columns * spacing[plane.left]), float(rows * spacing[plane.up])),
            position=float(place[plane.across]),
            number=index + 1,
            of=reference.shape[plane.across],
            image=None if image is None else _jpeg(to_gray(plane.cut(image, index, box), image.bounds)),
            outlines={who: outline(mask) for who, mask in masks.items() if mask.any()},
        )
        views.append(view)
    return Overlays(focus.what, tuple(views))


def _shown_box(reference: Voxels, prediction: Voxels, spacing: np.ndarray, description: Description) -> Region:
    """Returns the box around all masks with a margin, or the whole volume if there are no masks."""
    box = around(*(bounding_box(_labeled(labels, description)) for labels in (reference, prediction)))
    if box is None:
        return whole(reference.shape)
    margins = (int(np.ceil(MARGIN_MM / mm)) for mm in spacing)
    return tuple(
        slice(max(0, at.start - margin), min(at.stop + margin, size))
        for at, margin, size in zip(box, margins, reference.shape, strict=True)
    )


def _labeled(labels: Voxels, description: Description) -> Voxels:
    """Returns the voxels that belong to any mask."""

    def read(region: Region) -> np.ndarray:
        part = labels[region]
        return functools.reduce(np.logical_or, (description.mask(name, part) for name in description.masks))

    return VoxelView(labels.shape, read)


def _jpeg(gray: np.ndarray) -> bytes:
    data = io.BytesIO()
    Image.fromarray(gray).save(data, "JPEG", quality=_QUALITY, optimize=True)
    return data.getvalue()
