"""Computes the labels in a region of a volume from the probabilities in the part of the grid that it needs."""

import math
from collections.abc import Iterator

import numpy as np

from mtf_imaging.data.description.description import LITS, UNCLEAR, Description
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.interpolation import interpolate_region, is_same, nearest, needed_region
from mtf_imaging.data.sampling.regions import halves, moved, overlap, region_shape
from mtf_imaging.data.sampling.sampling import SPLINE, Spans
from mtf_imaging.engine.layout.regions import absolute

_SLAB_BYTES = 32 << 20  # bytes of float32 probabilities; a few slabs exist at the same time
_PART_VALUES = 1 << 17  # probabilities that are interpolated at once; they stay in the cache


def region_of_slice(grid: Grid, spans: Spans, region: Region) -> Region:
    """Returns the voxels of a volume whose centers lie in a region of a grid.

    Regions that divide the grid also divide the volume. Voxels beyond the grid belong to its outermost voxels.

    >>> from mtf_imaging.data.sampling.sampling import whole_field
    >>> region_of_slice((4, 4, 4), whole_field((4, 4, 4), (8, 8, 8)), (slice(0, 2), slice(2, 4), slice(0, 4)))
    (slice(0, 4, None), slice(4, 8, None), slice(0, 8, None))

    Args:
      grid: size of the grid in voxels along x, y, z.
      spans: the voxels of the volume along x, y, z, in grid coordinates.
      region: the region of the grid.
    """
    return tuple(
        slice(*(int(np.searchsorted(nearest(n, span), edge)) for edge in (at.start, at.stop)))
        for n, span, at in zip(grid, spans, region, strict=True)
    )


def label_slabs(grid: Grid, spans: Spans, region: Region, classes: int) -> Iterator[Region]:
    """Yields slabs of a volume's region along z, so thin that their probabilities need little memory.

    Args:
      grid, spans, region: the same as in `needed_region`.
      classes: the number of probabilities per voxel.
    """
    source, result = region_shape(needed_region(grid, spans, region)), region_shape(region)
    # A slab consists of grid planes before resampling and of result planes afterward; the larger plane counts.
    plane_bytes = 4 * classes * max(source[0], result[0]) * max(source[1], result[1]) * max(1.0, spans[2].step)
    planes = max(1, int(_SLAB_BYTES // max(plane_bytes, 1)))
    for start in range(region[2].start, region[2].stop, planes):
        yield (*region[:2], slice(start, min(start + planes, region[2].stop)))


def labels_of_region(
    probabilities: np.ndarray,
    grid: Grid,
    spans: Spans,
    region: Region,
    description: Description = LITS,
    factors: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the labels of one region of a volume.

    Probabilities are interpolated before labels are chosen. This gives smooth boundaries; resampled labels would show
    steps of one grid voxel. The labels do not depend on the region.

    Args:
      probabilities: `[x, y, z, classes]` of the voxels `needed_region(grid, spans, region)`, any float type.
      grid: size of the whole grid in voxels along x, y, z.
      spans: the voxels of the whole volume along x, y, z, in grid coordinates.
      region: the region of the volume.
      description: the labels or regions that the probabilities represent.
      factors: factors of the probabilities before labels are chosen, `[classes]`; None for none.

    Returns:
      uint8 `[x, y, z]` with the shape of the region: the labels, 0 beyond the grid.
    """
    labels = np.zeros(region_shape(region), np.uint8)
    source, inside = needed_region(grid, spans, region), covered_region(grid, spans, region)
    rule = description if factors is None else description.of_probabilities

    def decision_values(values: np.ndarray) -> np.ndarray:
        return values if factors is None else description.probabilities(values) * factors

    # Averages of voxels with one label have this label, so only voxels near a boundary are interpolated. The weights of
    # splines can be negative.
    clear = None
    if not all(map(is_same, spans, grid)) and not any(span.kernel == SPLINE for span in spans):
        clear = rule.clear_labels(decision_values(probabilities))

    parts = [absolute(inside, region)] if labels[inside].size else []
    while parts:
        part = parts.pop()
        there = moved(needed_region(grid, spans, part), source)
        voxels = UNCLEAR if clear is None else clear[there]
        if np.min(voxels) == np.max(voxels) != UNCLEAR:
            labels[moved(part, region)] = voxels.flat[0]
        elif math.prod(region_shape(part)) * probabilities.shape[-1] > _PART_VALUES:
            parts += halves(part)
        else:
            values = resampled_region(probabilities[there], grid, spans, part)
            labels[moved(part, region)] = rule.to_labels(decision_values(values))
    return labels


def resampled_region(values: np.ndarray, grid: Grid, spans: Spans, region: Region) -> np.ndarray:
    """Interpolates values of a grid, such as probabilities, at the voxels of one region of a volume.

    Args:
      values: `[x, y, z, values]` of the voxels `needed_region(grid, spans, region)`, any float type.
      grid, spans, region: the same as in `labels_of_region`.

    Returns:
      float32 `[x, y, z, values]` with the shape of the region. Voxels beyond the grid have the values of its edge.
    """
    return interpolate_region(values, grid, spans, region, axes=(2, 0, 1))


def covered_region(grid: Grid, spans: Spans, region: Region) -> Region:
    """Returns the voxels of a region of a volume that lie in the grid, relative to the region.

    Args:
      grid, spans, region: the same as in `labels_of_region`.
    """
    covered = tuple(overlap(span.inside(n), at) for n, span, at in zip(grid, spans, region, strict=True))
    return moved(covered, region)
