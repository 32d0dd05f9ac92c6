"""Distances in mm between the surfaces of two masks."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads its modules when they are used

from mtf_imaging.evaluation.volume_scores.voxels import Voxels, slabs, whole
from mtf_imaging.files.growing import Growing

_ROUNDING_MM = 1e-6  # bound on the rounding error of distances such as 3 * 0.1 - 2 * 0.1
_TREE_POINTS = 1 << 21  # points of a surface that are searched at once
_POINTS = 1 << 18  # points whose distances are computed at once


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


@dataclass(frozen=True)
class Surface:
    """The surface voxels of a mask, in the order of the array.

    Attributes:
      voxels: int64 `[voxels]`, the index of each voxel in the flattened array.
      shape: the number of voxels of the array along each axis.
    """

    voxels: np.ndarray
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.voxels)

    def points(self, spacing: Sequence[float], at: slice = slice(None)) -> np.ndarray:
        """Returns the centers of some voxels, float64 `[voxels, axes]` in mm from the first voxel of the array."""
        return np.stack(np.unravel_index(self.voxels[at], self.shape), axis=-1) * np.asarray(spacing, np.float64)


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
    surfaces = (surface_voxels(mask[region] for region in slabs(whole(mask.shape))) for mask in (prediction, reference))
    return distances_between(*(surface.get(1) for surface in surfaces), spacing, tolerance)


def distances_between(
    first: Surface | None, second: Surface | None, spacing: Sequence[float], tolerance: float | None = None
) -> SurfaceDistances | None:
    """Measures the distances between two surfaces; see `surface_distances`.

    Args:
      first: a surface; None if it has no voxels.
      second: the other surface, in an array of the same shape.
      spacing: voxel size in mm.
      tolerance: see `surface_distances`.

    Returns:
      The distances, or None if a surface has no voxels.
    """
    if first is None or second is None:
        return None
    ways = [_nearest(*pair, spacing) for pair in ((first, second), (second, first))]
    count = len(first) + len(second)
    parts = [way[at : at + _POINTS] for way in ways for at in range(0, len(way), _POINTS)]
    near = None if tolerance is None else sum(np.count_nonzero(part <= tolerance + _ROUNDING_MM) for part in parts)
    return SurfaceDistances(
        assd=float(sum(part.sum() for part in parts) / count),
        rmsd=float(np.sqrt(sum(np.square(part).sum() for part in parts) / count)),
        mssd=float(max(part.max() for part in parts)),
        # Last, because it changes the order of the distances.
        hd95=float(max(np.percentile(way, 95, overwrite_input=True) for way in ways)),
        surface_dice=None if near is None else near / count,
    )


def surface_voxels(groups: Iterable[np.ndarray]) -> dict[int, Surface]:
    """Returns the surface of each group of voxels.

    Args:
      groups: the group of each voxel, integers or bool `[planes, ...]` for consecutive planes along the first axis; 0
        is background. For each group, voxels of other groups are outside.

    Returns:
      {group: its surface}.
    """
    found: dict[int, Growing] = {}
    first = 0  # index of the second of `planes`, the first one whose surface is not yet known
    planes = None
    for slab in itertools.chain(groups, [None]):
        if planes is None:
            planes = np.zeros_like(slab[:1])
        # Keeps the last two planes, because the surface of the last one depends on the next plane.
        planes = np.concatenate([planes[-2:], np.zeros_like(planes[:1]) if slab is None else slab])
        for group, voxels in _surfaces(planes):
            found.setdefault(group, Growing(np.int64)).add(voxels + first * planes[0].size)
        first += len(planes) - 2
    return {group: Surface(voxels.array(), (first, *planes.shape[1:])) for group, voxels in found.items()}


def _surfaces(planes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each group and its surface voxels in all planes except the first and the last, which are neighbors.

    The surface consists of the voxels with a neighbor of another group. Neighbors share a face or an edge: 18 in a
    volume, 8 in a 2-D image, as in the challenge's scorer.
    """
    inside = np.ones(planes.shape, bool)
    rows = []  # whether a voxel and its two neighbors along each axis have the same group
    for axis in range(planes.ndim):
        same = np.zeros(planes.shape, bool)
        own, here, result, *beside = (np.moveaxis(each, axis, 0) for each in (planes, same, inside, *rows))
        here[1:-1] = (own[:-2] == own[1:-1]) & (own[1:-1] == own[2:])
        for row in beside:  # with the rows beside a voxel, all voxels that share an edge with it
            result[1:-1] &= row[:-2] & row[1:-1] & row[2:]
        inside &= same
        rows.append(same)
    voxels = np.flatnonzero(~inside[1:-1] & (planes[1:-1] > 0))
    own = planes[1:-1].ravel()[voxels]
    order = np.argsort(own, kind="stable")
    ends = np.flatnonzero(np.diff(own[order])) + 1
    for part in np.split(order, ends) if len(order) else []:
        yield int(own[part[0]]), voxels[part]


def _nearest(surface: Surface, other: Surface, spacing: Sequence[float]) -> np.ndarray:
    """Returns the distance in mm of each voxel of a surface from another surface."""

    @functools.lru_cache(maxsize=2)
    def tree(start: int) -> "scipy.spatial.cKDTree":
        # Splits at the middle and large leaves are several times faster for voxels far from the other surface.
        points = other.points(spacing, slice(start, start + _TREE_POINTS))
        return scipy.spatial.cKDTree(points, leafsize=64, compact_nodes=False, balanced_tree=False)

    starts = range(0, len(other), _TREE_POINTS)
    ends = [other.points(spacing, [start, min(start + _TREE_POINTS, len(other)) - 1])[:, 0] for start in starts]
    found = Growing(np.float64)
    for at in range(0, len(surface), _POINTS):
        points = surface.points(spacing, slice(at, at + _POINTS))
        # Voxels are sorted along the first axis, so most trees are farther away than the nearest voxel.
        gaps = [np.maximum(0, np.maximum(low - points[:, 0], points[:, 0] - high)) for low, high in ends]
        nearest = np.full(len(points), np.inf)
        for start, gap in sorted(zip(starts, gaps, strict=True), key=lambda pair: pair[1].mean()):
            closer = gap < nearest
            if closer.any():
                nearest[closer] = np.minimum(nearest[closer], tree(start).query(points[closer])[0])
        found.add(nearest)
    return found.array()


def bounding_box(mask: Voxels) -> tuple[slice, ...] | None:
    """Returns the smallest box around the true voxels of a mask, or None if the mask is empty."""
    boxes = []
    for region in slabs(whole(mask.shape)):
        part = np.asarray(mask[region])
        if part.any():
            others = ((*range(axis), *range(axis + 1, part.ndim)) for axis in range(part.ndim))
            places = (np.flatnonzero(part.any(axis=axes)) for axes in others)
            boxes.append(
                tuple(slice(r.start + at[0], r.start + at[-1] + 1) for r, at in zip(region, places, strict=True))
            )
    return around(*boxes)


def around(*boxes: tuple[slice, ...] | None) -> tuple[slice, ...] | None:
    """Returns the smallest box around all boxes that are not None, or None if there is no such box.

    >>> around((slice(2, 5),), None, (slice(7, 9),))
    (slice(2, 9, None),)
    """
    boxes = [box for box in boxes if box is not None]
    ends = zip(*boxes, strict=True)
    return tuple(slice(min(at.start for at in axis), max(at.stop for at in axis)) for axis in ends) or None
