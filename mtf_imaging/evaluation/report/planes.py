"""The slices of a case to show, oriented by the conventions of radiology."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.evaluation.scoring.overlap import MASKS
from mtf_imaging.evaluation.scoring.surface import bounding_box

DISPLAY_HU = (-160, 240)  # the abdominal window of radiology
_LETTERS = ("RL", "AP", "SI")  # for each canonical axis, the side of its high and of its low end


@dataclass(frozen=True)
class Plane:
    """A plane through a canonical volume `[x, y, z]`, oriented by the conventions of radiology.

    Attributes:
      name: the name of the plane.
      across: the axis perpendicular to the plane.
      left: the axis that increases to the left in the picture.
      up: the axis that increases upward in the picture.
    """

    name: str
    across: int
    left: int
    up: int

    @property
    def letters(self) -> str:
        """The patient's sides at the left, right, top and bottom of the picture.

        >>> {plane.name: plane.letters for plane in PLANES}
        {'axial': 'RLAP', 'coronal': 'RLSI', 'sagittal': 'APSI'}
        """
        return _LETTERS[self.left] + _LETTERS[self.up]

    @property
    def across_letters(self) -> str:
        """The patient's sides at the high and the low end of the perpendicular axis."""
        return _LETTERS[self.across]

    def cut(self, array: np.ndarray, index: int, box: tuple[slice, slice, slice] | None = None) -> np.ndarray:
        """Returns one slice of a volume as a view.

        Args:
          array: the volume `[x, y, z]`.
          index: the index of the slice along the perpendicular axis.
          box: the part of the volume to show; None shows all of it.

        Returns:
          The slice `[rows, columns]`, from the top left of the picture.
        """
        at = list(box or (slice(None),) * 3)
        at[self.across] = index
        return array[tuple(at)].T[::-1, ::-1]  # [left, up] -> [up, left] -> the picture's orientation


# The viewer looks from the feet, at the face, or from the patient's left side.
PLANES = (
    Plane("axial", across=2, left=0, up=1),
    Plane("coronal", across=1, left=0, up=2),
    Plane("sagittal", across=0, left=1, up=2),
)


@dataclass(frozen=True)
class Focus:
    """The voxel where the slices of a case meet.

    Attributes:
      point: the index of the voxel along x, y and z.
      what: a description for the report.
    """

    point: tuple[int, int, int]
    what: str


def find_focus(reference: np.ndarray, prediction: np.ndarray) -> Focus:
    """Finds the voxel to show: in the largest reference lesion, if there is one.

    The fallbacks are, in this order, the largest predicted lesion, the liver of the reference, the predicted liver and
    the middle of the volume.

    Args:
      reference: labels `[x, y, z]` of the reference, 0 background, 1 liver, 2 lesion.
      prediction: labels `[x, y, z]` of the prediction.
    """
    steps = (
        (_largest_lesion, reference, "the largest lesion of the reference"),
        (_largest_lesion, prediction, "the largest predicted lesion; the reference has no lesion"),
        (_liver, reference, "the middle of the liver; there is no lesion"),
        (_liver, prediction, "the middle of the predicted liver; the reference is empty"),
    )
    for find, labels, what in steps:
        point = find(labels)
        if point:
            return Focus(point, what)
    return Focus(tuple(size // 2 for size in reference.shape), "the middle of the volume; both segmentations are empty")


def _largest_lesion(labels: np.ndarray) -> tuple[int, int, int] | None:
    """Returns the middle of the largest lesion, or None; the first of several equal lesions wins.

    The voxels of a lesion are connected through faces, as in scoring.
    """
    mask = MASKS["lesion"](labels)
    box = bounding_box(mask)
    if box is None:
        return None
    parts, _ = ndimage.label(mask[box])  # only the box, because the result takes 4 bytes per voxel
    return _middle(parts == 1 + np.argmax(np.bincount(parts.ravel())[1:]), box)


def _liver(labels: np.ndarray) -> tuple[int, int, int] | None:
    mask = MASKS["liver"](labels)
    box = bounding_box(mask)
    return _middle(mask[box], box) if box else None


def _middle(mask: np.ndarray, box: tuple[slice, slice, slice]) -> tuple[int, int, int]:
    """Returns the mask voxel nearest to the mean of the mask, because the mean may lie outside a bent mask."""
    total = np.count_nonzero(mask)
    mean = []
    for axis, size in enumerate(mask.shape):
        counts = np.count_nonzero(mask, axis=tuple(other for other in range(3) if other != axis))
        mean.append(float(counts @ np.arange(size)) / total)
    voxel = tuple(round(index) for index in mean)
    if not mask[voxel]:
        voxels = np.argwhere(mask)
        voxel = voxels[np.argmin(sum((voxels[:, axis] - mean[axis]) ** 2 for axis in range(3)))].tolist()
    return tuple(int(index) + at.start for index, at in zip(voxel, box, strict=True))
