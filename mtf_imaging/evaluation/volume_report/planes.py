"""The slices of a case to show, in radiological orientation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.volume_scores.components import mask_components
from mtf_imaging.evaluation.volume_scores.surface import bounding_box
from mtf_imaging.evaluation.volume_scores.views import mask_view
from mtf_imaging.evaluation.volume_scores.voxels import Region, Voxels, slabs, whole

Point = tuple[int, int, int]  # the indices of a voxel along x, y and z

_LETTERS = ("RL", "AP", "SI")  # for each canonical axis, the patient's side at its high and low end


@dataclass(frozen=True)
class Plane:
    """A plane through a canonical volume `[x, y, z]`, in radiological orientation.

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
        """The patient's sides at the high and low end of the perpendicular axis."""
        return _LETTERS[self.across]

    def cut(self, volume: Voxels, index: int, box: Region | None = None) -> np.ndarray:
        """Returns one slice of a volume.

        Args:
          volume: the volume `[x, y, z]`: an array, or another volume that can be read in parts.
          index: the index of the slice along the perpendicular axis.
          box: the part of the volume to show; None shows all of it.

        Returns:
          The slice `[rows, columns]`, from the top left of the picture.
        """
        region = list(box or whole(volume.shape))
        region[self.across] = slice(index, index + 1)
        plane = volume[tuple(region)].squeeze(self.across)
        return plane.T[::-1, ::-1]  # [left, up] -> [up, left] -> the picture's orientation


# The viewer looks from the feet, at the face, or from the patient's left side.
PLANES = (
    Plane("axial", across=2, left=0, up=1),
    Plane("coronal", across=1, left=0, up=2),
    Plane("sagittal", across=0, left=1, up=2),
)


def shown_planes(shape: tuple[int, ...], description: Description) -> tuple[Plane, ...]:
    """Returns the planes to show for a volume: all three, or the only plane of a 2-D image."""
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


def find_focus(reference: Voxels, prediction: Voxels, description: Description = LITS) -> Focus:
    """Finds the voxel to show: in the largest reference lesion, if there is one.

    The fallbacks are, in this order, the largest predicted lesion, the largest mask of the reference (in LiTS the
    liver), the largest predicted mask and the middle of the volume.

    Args:
      reference: labels `[x, y, z]` of the reference: an array, or another volume that can be read in parts.
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
            name, point = largest
            return Focus(point, f"the middle of the {who}{name}{why}")
    return Focus(tuple(size // 2 for size in reference.shape), "the middle of the volume; both segmentations are empty")


def _largest_lesion(labels: Voxels, description: Description) -> Point | None:
    """Returns the middle of the largest lesion, or None; the first of several equal lesions wins.

    The voxels of a lesion are connected through faces, as in scoring.
    """
    best, point = 0, None
    for name in description.lesions:
        lesions = mask_components(mask_view(labels, description, name))
        if lesions.count and lesions.sizes.max() > best:
            best, number = lesions.sizes.max(), int(np.argmax(lesions.sizes))
            point = _middle(lambda: (slab == number for slab in lesions.slabs()), lesions.box)  # noqa: B023  read here
    return point


def _largest_mask(labels: Voxels, description: Description) -> tuple[str, Point] | None:
    """Returns the name and the middle of the largest mask, or None; the first of equal masks wins."""
    sizes = dict.fromkeys(description.masks, 0)
    for region in slabs(whole(labels.shape)):
        part = labels[region]
        for name in sizes:
            sizes[name] += np.count_nonzero(description.mask(name, part))
    name = max(sizes, key=sizes.get)
    mask = mask_view(labels, description, name)
    box = bounding_box(mask)
    return (name, _middle(lambda: (mask[region] for region in slabs(box)), box)) if box else None


def _middle(read: Callable[[], Iterator[np.ndarray]], box: Region) -> Point:
    """Returns the mask voxel nearest to the mask's center of mass, which may lie outside a bent mask.

    Args:
      read: a function that returns the mask, bool `[planes, y, z]`, in slabs of the box.
      box: a box around the mask.
    """
    counts = [np.zeros(at.stop - at.start, np.int64) for at in box]
    for first, mask in _numbered(read()):
        counts[0][first : first + len(mask)] = np.count_nonzero(mask, axis=(1, 2))
        counts[1] += np.count_nonzero(mask, axis=(0, 2))
        counts[2] += np.count_nonzero(mask, axis=(0, 1))
    total = int(counts[0].sum())
    mean = [float(count @ np.arange(len(count))) / total for count in counts]
    voxel = tuple(round(index) for index in mean)
    for first, mask in _numbered(read()):
        if first <= voxel[0] < first + len(mask) and not mask[voxel[0] - first, voxel[1], voxel[2]]:
            voxel = _nearest(read, mean)
            break
    return tuple(int(index) + at.start for index, at in zip(voxel, box, strict=True))


def _nearest(read: Callable[[], Iterator[np.ndarray]], mean: Sequence[float]) -> Point:
    """Returns the mask voxel nearest to a point; the first of several equal ones wins."""
    best, nearest = np.inf, None
    for first, mask in _numbered(read()):
        voxels = np.add(np.argwhere(mask), [first, 0, 0])
        if len(voxels):
            distances = sum((voxels[:, axis] - mean[axis]) ** 2 for axis in range(3))
            at = np.argmin(distances)
            if distances[at] < best:
                best, nearest = distances[at], voxels[at].tolist()
    return tuple(nearest)


def _numbered(slabs: Iterator[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each slab with the index of its first plane."""
    first = 0
    for slab in slabs:
        yield first, slab
        first += len(slab)
