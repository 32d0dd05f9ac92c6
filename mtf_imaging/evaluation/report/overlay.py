"""Slices of a case with the outlines of reference and prediction, small enough to return from a worker process."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mtf_imaging.evaluation.report.outline import outline
from mtf_imaging.evaluation.report.planes import DISPLAY_HU, PLANES, Plane, find_focus
from mtf_imaging.evaluation.scoring.overlap import MASKS
from mtf_imaging.evaluation.scoring.surface import around, bounding_box

MARGIN_MM = 15.0  # around the livers
_QUALITY = 80  # JPEG quality that preserves sharp edges and the texture of noise


@dataclass(frozen=True)
class View:
    """A slice of a case, cropped to the box around its livers.

    Attributes:
      plane: the plane and its orientation in the picture.
      voxels: columns and rows of the picture.
      mm: width and height of the picture in mm.
      position: position in mm along the perpendicular axis, computed with the affine; it increases to the patient's
        right, front or head.
      number: the number of the slice along this axis, counted from 1.
      of: the number of slices along this axis.
      image: the CT as JPEG, or None if there is no CT.
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
      what: a description of the point where they meet, for the report.
      views: the axial, coronal and sagittal view.
    """

    what: str
    views: tuple[View, ...]


def make_overlays(hu: np.ndarray | None, reference: np.ndarray, prediction: np.ndarray, affine: np.ndarray) -> Overlays:
    """Makes the slices of a case through its largest lesion; see `find_focus`.

    Args:
      hu: CT `[x, y, z]` in canonical axes, or None.
      reference: labels `[x, y, z]` of the reference, 0 background, 1 liver, 2 lesion.
      prediction: labels `[x, y, z]` of the prediction.
      affine: `[4, 4]`, canonical voxel index -> mm in RAS+.
    """
    focus = find_focus(reference, prediction)
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    box = _shown_box(reference, prediction, spacing)
    place = affine @ [*focus.point, 1.0]
    views = []
    for plane in PLANES:
        index = focus.point[plane.across]
        masks = {
            (who, name): is_of(plane.cut(labels, index, box))
            for who, labels in (("reference", reference), ("prediction", prediction))
            for name, is_of in MASKS.items()
        }
        rows, columns = next(iter(masks.values())).shape
        view = View(
            plane=plane,
            voxels=(columns, rows),
            mm=(float(columns * spacing[plane.left]), float(rows * spacing[plane.up])),
            position=float(place[plane.across]),
            number=index + 1,
            of=reference.shape[plane.across],
            image=None if hu is None else _jpeg(plane.cut(hu, index, box)),
            outlines={who: outline(mask) for who, mask in masks.items() if mask.any()},
        )
        views.append(view)
    return Overlays(focus.what, tuple(views))


def _shown_box(reference, prediction, spacing) -> tuple[slice, slice, slice]:
    """Returns the box around both livers with a margin, or the whole volume if there is no liver."""
    box = around(*(bounding_box(MASKS["liver"](labels)) for labels in (reference, prediction)))
    if box is None:
        return (slice(None),) * 3
    margins = (int(np.ceil(MARGIN_MM / mm)) for mm in spacing)
    return tuple(slice(max(0, at.start - margin), at.stop + margin) for at, margin in zip(box, margins, strict=True))


def _jpeg(hu: np.ndarray) -> bytes:
    low, high = DISPLAY_HU
    gray = np.rint((np.clip(hu, low, high).astype(np.float32) - low) * (255 / (high - low))).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(gray).save(data, "JPEG", quality=_QUALITY, optimize=True)
    return data.getvalue()
