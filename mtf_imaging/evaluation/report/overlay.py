"""Slices of a case with the outlines of reference and prediction: small enough to come back from a worker."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mtf_imaging.evaluation.report.outline import outline
from mtf_imaging.evaluation.report.planes import DISPLAY_HU, PLANES, Plane, find_focus
from mtf_imaging.evaluation.scoring.overlap import MASKS
from mtf_imaging.evaluation.scoring.surface import around, bounding_box

MARGIN_MM = 15.0  # shown around the livers
_QUALITY = 80  # of JPEG: noise of a CT stays noise, edges stay sharp


@dataclass(frozen=True)
class View:
    """A slice of a case, in the box around its livers.

    Attributes:
      plane: what it shows, and how it lies.
      voxels: columns and rows of the picture.
      mm: its width and height.
      position: mm along the axis that the plane cuts, by the affine: to the right, to the front, to the head.
      number, of: which slice it is, counted from 1 on in that direction, and how many there are.
      image: the CT as JPEG, or None where there is none.
      outlines: `{("reference", "liver"): path, ...}`; see `outline`. What is not on the slice is left out.
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
      what: what they go through, for people.
      views: axial, coronal, sagittal.
    """

    what: str
    views: tuple[View, ...]


def make_overlays(hu: np.ndarray | None, reference: np.ndarray, prediction: np.ndarray, affine: np.ndarray) -> Overlays:
    """Cuts a case through its largest lesion; see `find_focus`.

    Args:
      hu: CT `[x, y, z]` in canonical axes, or None.
      reference: labels `[x, y, z]` of the reference, 0 background, 1 liver, 2 lesion.
      prediction: the same of the prediction.
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
    """The box of both livers with a margin, or all of the volume where there is none."""
    box = around(*(bounding_box(MASKS["liver"](labels)) for labels in (reference, prediction)))
    if box is None:
        return (slice(None),) * 3
    margins = (int(np.ceil(MARGIN_MM / mm)) for mm in spacing)
    return tuple(slice(max(0, at.start - margin), at.stop + margin) for at, margin in zip(box, margins, strict=True))


def _jpeg(hu: np.ndarray) -> bytes:
    low, high = DISPLAY_HU
    grey = np.rint((np.clip(hu, low, high).astype(np.float32) - low) * (255 / (high - low))).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(grey).save(data, "JPEG", quality=_QUALITY, optimize=True)
    return data.getvalue()
