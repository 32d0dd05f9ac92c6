"""Distances in mm between the surfaces of two masks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, spatial

# Neighbors share a face or an edge: 18 in a volume, 8 in a 2-D image. The challenge's scorer erodes masks with them.
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
    prediction: np.ndarray, reference: np.ndarray, spacing: Sequence[float], tolerance: float | None = None
) -> SurfaceDistances | None:
    """Measures the distances between the surfaces of two masks.

    A surface consists of the centers of all mask voxels with a neighbor outside the mask or outside the volume.
    Neighbors share a face or an edge, as in the challenge's scorer. The distance of a point is the distance to the
    nearest point of the other surface.

    Args:
      prediction: bool `[x, y, z]`, or `[x, y]` for a 2-D image.
      reference: bool of the same shape.
      spacing: voxel size in mm.
      tolerance: the largest distance in mm that the surface Dice accepts, as in Nikolov et al. 2018
        (arXiv:1809.04430), with points in place of surface areas; None skips the surface Dice.

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
        surface_dice=None if tolerance is None else float((both <= tolerance + _ROUNDING_MM).mean()),
    )


def surface_points(mask: np.ndarray, spacing: Sequence[float]) -> np.ndarray:
    """Returns the surface of a mask, float64 `[points, axes]` in mm from the first voxel of the array."""
    box = bounding_box(mask)
    if box is None:
        return np.empty((0, mask.ndim))
    mask = mask[box]
    neighbors = ndimage.generate_binary_structure(mask.ndim, _CONNECTIVITY)
    border = mask & ~ndimage.binary_erosion(mask, neighbors)
    return (np.argwhere(border) + [at.start for at in box]) * np.asarray(spacing, np.float64)


def bounding_box(mask: np.ndarray) -> tuple[slice, ...] | None:
    """Returns the smallest box around the true voxels of a mask, or None if the mask is empty."""
    box = []
    for axis in range(mask.ndim):
        indices = np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        if not len(indices):
            return None
        box.append(slice(int(indices[0]), int(indices[-1]) + 1))
    return tuple(box)


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
