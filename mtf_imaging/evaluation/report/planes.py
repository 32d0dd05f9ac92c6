"""The slices of a case to show, oriented by the conventions of radiology."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.data.cases.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.scoring.surface import bounding_box

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


def shown_planes(shape: tuple[int, ...], description: Description) -> tuple[Plane, ...]:
    """Returns the planes to show of a volume: all three, or the one plane of a 2-D image."""
    flat = [axis for axis, size in enumerate(shape) if size == 1]
    if description.rules == LITS_RULES or len(flat) != 1:
        return PLANES
    return tuple(plane for plane in PLANES if plane.across == flat[0])


@dataclass(frozen=True)
class Focus:
    """The voxel where the slices of a case meet.

    Attributes:
      point: the index of the voxel along x, y and z.
      what: a description for the report.
    """

    point: tuple[int, int, int]
    what: str


def find_focus(reference: np.ndarray, prediction: np.ndarray, description: Description = LITS) -> Focus:
    """Finds the voxel to show: in the largest reference lesion, if there is one.

    The fallbacks are, in this order, the largest predicted lesion, the largest mask of the reference (in LiTS the
    liver), the largest predicted mask and the middle of the volume.

    Args:
      reference: labels `[x, y, z]` of the reference.
      prediction: labels `[x, y, z]` of the prediction.
      description: the meaning of the labels.
    """
    lesion = "lesion" if description.lesions in ((), ("lesion",)) else " or ".join(description.lesions)
    for labels, what in (
        (reference, f"the largest {lesion} of the reference"),
        (prediction, f"the largest predicted {lesion}; the reference has no {lesion}"),
    ):
        if point := _largest_lesion(labels, description):
            return Focus(point, what)
    absent = f"; there is no {lesion}" if description.lesions else ""
    for labels, who, why in ((reference, "", absent), (prediction, "predicted ", "; the reference is empty")):
        if largest := _largest_mask(labels, description):
            name, box = largest
            return Focus(_middle(description.mask(name, labels[box]), box), f"the middle of the {who}{name}{why}")
    return Focus(tuple(size // 2 for size in reference.shape), "the middle of the volume; both segmentations are empty")


def _largest_lesion(labels: np.ndarray, description: Description) -> tuple[int, int, int] | None:
    """Returns the middle of the largest lesion, or None; the first of several equal lesions wins.

    The voxels of a lesion are connected through faces, as in scoring.
    """
    best, point = 0, None
    for name in description.lesions:
        mask = description.mask(name, labels)
        box = bounding_box(mask)
        if box is None:
            continue
        parts, _ = ndimage.label(mask[box])  # only the box, because the result takes 4 bytes per voxel
        sizes = np.bincount(parts.ravel())[1:]
        if sizes.max() > best:
            best, point = sizes.max(), _middle(parts == 1 + np.argmax(sizes), box)
    return point


def _largest_mask(labels: np.ndarray, description: Description) -> tuple[str, tuple[slice, slice, slice]] | None:
    """Returns the name and the box of the mask with the most voxels, or None; the first of several equal masks wins."""
    sizes = {name: np.count_nonzero(description.mask(name, labels)) for name in description.masks}
    name = max(sizes, key=sizes.get)
    box = bounding_box(description.mask(name, labels))
    return (name, box) if box else None


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
