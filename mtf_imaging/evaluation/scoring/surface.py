"""Distances between the surfaces of two masks, in mm."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage, spatial

# The 18 neighbors that share a face or an edge. The challenge's scorer erodes masks with them.
_NEIGHBORS = ndimage.generate_binary_structure(3, 2)


@dataclass(frozen=True)
class SurfaceDistances:
    """Distances between two surfaces, in mm; every point of each counts once.

    Attributes:
      assd: average symmetric surface distance.
      rmsd: root mean square symmetric surface distance.
      mssd: maximum symmetric surface distance, the symmetric Hausdorff distance.
      hd95: the larger of the two 95th percentiles of the distances from one surface to the other; not official.
    """

    assd: float
    rmsd: float
    mssd: float
    hd95: float


def surface_distances(
    prediction: np.ndarray, reference: np.ndarray, spacing: tuple[float, float, float]
) -> SurfaceDistances | None:
    """Measures how far two masks' surfaces are from each other.

    A surface consists of the centers of those voxels of a mask that have a neighbor outside the mask or outside the
    volume. Neighbors share a face or an edge, as in the challenge's scorer. The distance of a point is the distance to
    the nearest point of the other surface.

    Args:
      prediction: bool `[x, y, z]`.
      reference: bool `[x, y, z]`.
      spacing: voxel size in mm.

    Returns:
      The distances, or None if a mask is empty.
    """
    first, second = (surface_points(mask, spacing) for mask in (prediction, reference))
    if not len(first) or not len(second):
        return None
    there, back = _distances(first, second), _distances(second, first)
    both = np.concatenate([there, back])
    return SurfaceDistances(
        assd=float(both.mean()),
        rmsd=float(np.sqrt(np.square(both).mean())),
        mssd=float(both.max()),
        hd95=float(max(np.percentile(there, 95), np.percentile(back, 95))),
    )


def surface_points(mask: np.ndarray, spacing: tuple[float, float, float]) -> np.ndarray:
    """Surface of a mask, float64 `[points, 3]` in mm from the first voxel of the array."""
    box = bounding_box(mask)
    if box is None:
        return np.empty((0, 3))
    mask = mask[box]
    border = mask & ~ndimage.binary_erosion(mask, _NEIGHBORS)
    return (np.argwhere(border) + [at.start for at in box]) * np.asarray(spacing, np.float64)


def bounding_box(mask: np.ndarray) -> tuple[slice, ...] | None:
    """The smallest box that holds a boolean mask, or None where it is empty."""
    box = []
    for axis in range(mask.ndim):
        found = np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        if not len(found):
            return None
        box.append(slice(int(found[0]), int(found[-1]) + 1))
    return tuple(box)


def around(*boxes: tuple[slice, ...] | None) -> tuple[slice, ...] | None:
    """The smallest box around boxes, of which any may be None; None where all are.

    >>> around((slice(2, 5),), None, (slice(7, 9),))
    (slice(2, 9, None),)
    """
    boxes = [box for box in boxes if box is not None]
    ends = zip(*boxes, strict=True)
    return tuple(slice(min(at.start for at in axis), max(at.stop for at in axis)) for axis in ends) or None


def _distances(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    return spatial.cKDTree(others).query(points)[0]
