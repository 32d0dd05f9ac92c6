"""Distances in mm between the surfaces of two masks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, spatial

from mtf_imaging.evaluation.volume_scores.voxels import Voxels, slabs, whole

# Neighbors share a face or an edge: 18 in a volume, 8 in a 2-D image. The challenge's scorer erodes masks with this
# neighborhood.
_CONNECTIVITY = 2
_ROUNDING_MM = 1e-6  # bound on the rounding error of distances such as 3 * 0.1 - 2 * 0.1


@dataclass(frozen=True)
class SurfaceDistances:
    """Distances in mm between two surfaces; each point of both surfaces counts once.

    Attributes:
      assd: average symmetric surface distance.
      rmsd: root mean square symmetric surface distance.
      mssd: maximum symmetric surface distance, the symmetric Hausdorff distance.
      hd95: the larger of the 95th percentiles of the two directions; not an official score.
      surface_dice: the share of the points of both surfaces whose distance is at most the tolerance; None without a
        tolerance.
    """

    assd: float
    rmsd: float
    mssd: float
    hd95: float
    surface_dice: float | None = None


def surface_distances(
    prediction: Voxels, reference: Voxels, spacing: Sequence[float], tolerance: float | None = None
) -> SurfaceDistances | None:
    """Measures the distances between the surfaces of two masks.

    A surface consists of the centers of all mask voxels with a neighbor outside the mask or outside the volume.
    Neighbors share a face or an edge, as in the challenge's scorer. The distance of a point is the distance to the
    nearest point of the other surface.

    Args:
      prediction: bool `[x, y, z]`, or `[x, y]` for a 2-D image; an array, or another volume that can be read in parts.
      reference: bool of the same shape.
      spacing: voxel size in mm.
      tolerance: the largest distance in mm that the surface Dice accepts, as in Nikolov et al. 2018
        (arXiv:1809.04430), with points in place of surface areas; None skips the surface Dice.

    Returns:
      The distances, or None if a mask is empty.
    """
    first, second = (surface_points(mask, spacing) for mask in (prediction, reference))
    return point_distances(first, second, tolerance)


def point_distances(first: np.ndarray, second: np.ndarray, tolerance: float | None = None) -> SurfaceDistances | None:
    """Measures the distances between two surfaces.

    Args:
      first: the points of a surface, float64 `[points, axes]` in mm.
      second: the points of the other surface.
      tolerance: see `surface_distances`.

    Returns:
      The distances, or None if a surface has no points.
    """
    if not len(first) or not len(second):
        return None
    there, back = _distances(first, second), _distances(second, first)
    both = np.concatenate([there, back])
    return SurfaceDistances(
        assd=float(both.mean()),
        rmsd=float(np.sqrt(np.square(both).mean())),
        mssd=float(both.max()),
        hd95=float(max(np.percentile(there, 95), np.percentile(back, 95))),
        surface_dice=None if tolerance is None else float((both <= tolerance + _ROUNDING_MM).mean()),
    )


def surface_points(mask: Voxels, spacing: Sequence[float]) -> np.ndarray:
    """Returns the surface of a mask, float64 `[points, axes]` in mm from the first voxel of the volume."""
    box = bounding_box(mask)
    if box is None:
        return np.empty((0, len(mask.shape)))
    parts = (np.asarray(mask[region], bool).view(np.uint8) for region in slabs(box))
    voxels = surface_voxels(parts)[1]
    return (voxels + [at.start for at in box]) * np.asarray(spacing, np.float64)


def surface_voxels(groups: Iterable[np.ndarray]) -> dict[int, np.ndarray]:
    """Returns the surface of each group of voxels.

    Args:
      groups: the group of each voxel, integers `[planes, ...]` for consecutive planes along the first axis; 0 is
        background. For each group, voxels of other groups are outside.

    Returns:
      {group: indices of its surface voxels, int32 `[voxels, axes]`}, in the order of the array, from the first voxel of
      the first slab.
    """
    found: dict[int, list[np.ndarray]] = {}
    first = 0  # index of the second of `planes`, the first one whose surface is not yet known
    planes = None
    for slab in groups:
        # Keeps the last two planes, because the surface of the last one depends on the next plane.
        planes = np.concatenate([np.zeros_like(slab[:1]) if planes is None else planes[-2:], slab])
        _add_surfaces(found, planes, first)
        first += len(planes) - 2
    if planes is not None:
        _add_surfaces(found, np.concatenate([planes[-2:], np.zeros_like(planes[:1])]), first)
    return {group: np.concatenate(parts) for group, parts in found.items()}


def _add_surfaces(found: dict[int, list[np.ndarray]], planes: np.ndarray, first: int) -> None:
    """Adds the surface voxels of all planes except the first and the last, which only serve as neighbors."""
    neighbors = ndimage.generate_binary_structure(planes.ndim, _CONNECTIVITY)
    for group, box in enumerate(ndimage.find_objects(planes), start=1):
        if box is None:
            continue
        mask = planes[box] == group
        border = mask & ~ndimage.binary_erosion(mask, neighbors)
        at = box[0]
        inner = slice(max(at.start, 1), min(at.stop, len(planes) - 1))
        voxels = np.argwhere(border[inner.start - at.start : max(0, inner.stop - at.start)])
        if len(voxels):
            origin = [first + inner.start - 1, *(other.start for other in box[1:])]
            found.setdefault(group, []).append((voxels + origin).astype(np.int32))


def bounding_box(mask: Voxels) -> tuple[slice, ...] | None:
    """Returns the smallest box around the true voxels of a mask, or None if the mask is empty."""
    boxes = []
    for region in slabs(whole(mask.shape)):
        for box in ndimage.find_objects(np.asarray(mask[region], bool).view(np.uint8)):  # one, or none
            boxes.append(tuple(slice(r.start + at.start, r.start + at.stop) for r, at in zip(region, box, strict=True)))
    return around(*boxes)


def around(*boxes: tuple[slice, ...] | None) -> tuple[slice, ...] | None:
    """Returns the smallest box around all boxes that are not None, or None if there is no such box.

    >>> around((slice(2, 5),), None, (slice(7, 9),))
    (slice(2, 9, None),)
    """
    boxes = [box for box in boxes if box is not None]
    ends = zip(*boxes, strict=True)
    return tuple(slice(min(at.start for at in axis), max(at.stop for at in axis)) for axis in ends) or None


def _distances(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    return spatial.cKDTree(others).query(points)[0]
