"""Interpolation along single axes, as products with sparse matrices."""

import functools
from collections.abc import Iterable

import numpy as np
import scipy  # loads its modules when they are used

from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.regions import region_shape
from mtf_imaging.data.sampling.sampling import AVERAGE, LINE, NEAREST, SPLINE, Span, Spans

_SMALLEST = 1e-8  # Smaller weights of a spline are dropped, so that a voxel depends on about 30 voxels of an axis.


def centers(span: Span) -> np.ndarray:
    """Returns the voxel centers of a span, float64 `[size]`, in coordinates of the reference axis."""
    return span.start + (np.arange(span.size) + 0.5) * span.length / span.size


def nearest(n: int, span: Span) -> np.ndarray:
    """Returns the reference voxel that contains each center, int64 `[size]`; outside, the outermost voxel."""
    return np.clip(centers(span), 0, n - 1).astype(np.int64)


def is_same(span: Span, n: int) -> bool:
    """Returns whether the voxels of a span equal the `n` voxels of the axis."""
    return (span.start, span.length, span.size) == (0, n, n)


def axis_order(shape: tuple[int, ...], spans: Spans) -> list[int]:
    """Returns the order in which the axes are interpolated: the axis that shrinks most comes first.

    The values depend on this order, because float32 sums are rounded.
    """
    return sorted(range(3), key=lambda axis: spans[axis].size / shape[axis])


@functools.lru_cache(maxsize=16)  # the slabs of a volume use the same matrices
def weights(n: int, span: Span) -> "scipy.sparse.csr_array":
    """Returns a sparse matrix `[size, n]` of interpolation weights; row j has the weights of voxel j.

    The kernel of the span is one of:
      AVERAGE: linear interpolation; where an axis shrinks, the average over a triangle of radius `step`.
      LINE: linear interpolation of the two neighbors.
      SPLINE: cubic B-splines, as in `scipy.ndimage.zoom(..., order=3, mode="nearest", grid_mode=True)`.
      NEAREST: the voxel that contains the center.
    At the border, the outermost voxel is repeated.
    """
    return _MATRICES[span.kernel](n, span)


def _triangles(n: int, span: Span, radius: float) -> "scipy.sparse.csr_array":
    """Returns triangular weights around the centers. Weights beyond the border count for the outermost voxel."""
    middles = np.clip(centers(span), 0, n)  # ensures a positive weight for voxels beyond the border
    first = np.floor(middles - radius).astype(np.int64)
    columns = first[:, None] + np.arange(int(np.ceil(2 * radius)) + 1)
    values = np.maximum(0.0, 1.0 - np.abs(columns + 0.5 - middles[:, None]) / radius)
    values *= (columns >= 0) & (columns < n)
    values /= values.sum(axis=1, keepdims=True)
    rows = np.broadcast_to(np.arange(span.size)[:, None], columns.shape)
    kept = values > 0
    entries = (values[kept].astype(np.float32), (rows[kept], columns[kept]))
    return scipy.sparse.csr_array(entries, shape=(span.size, n))


def _nearest(n: int, span: Span) -> "scipy.sparse.csr_array":
    entries = (np.ones(span.size, np.float32), (np.arange(span.size), nearest(n, span)))
    return scipy.sparse.csr_array(entries, shape=(span.size, n))


def _splines(n: int, span: Span) -> "scipy.sparse.csr_array":
    """Returns the values of splines at the centers; the spline of row i of the identity is 1 at voxel i."""
    scales, offset = (span.step, 1.0), (span.start + span.step / 2 - 0.5, 0.0)
    options = {"output_shape": (span.size, n), "order": 3, "mode": "nearest"}
    values = scipy.ndimage.affine_transform(np.eye(n), scales, offset, **options)
    return scipy.sparse.csr_array(np.where(np.abs(values) > _SMALLEST, values, 0).astype(np.float32))


_MATRICES = {
    AVERAGE: lambda n, span: _triangles(n, span, max(1.0, span.step)),
    LINE: lambda n, span: _triangles(n, span, 1.0),
    SPLINE: _splines,
    NEAREST: _nearest,
}


def multiply(matrix: "scipy.sparse.csr_array", data: np.ndarray, axis: int) -> np.ndarray:
    """Contracts `axis` of `data` with the columns of `matrix`; returns float32."""
    # The other axes keep their order in memory, so that long runs are copied.
    others = sorted((other for other in range(data.ndim) if other != axis), key=lambda other: -data.strides[other])
    order = [axis, *others]
    moved = data.transpose(order)
    flat = np.ascontiguousarray(moved, np.float32).reshape(moved.shape[0], -1)
    return (matrix @ flat).reshape(-1, *moved.shape[1:]).transpose(np.argsort(order))


def needed_region(grid: Grid, spans: Spans, region: Region) -> Region:
    """Returns the voxels of a grid that the interpolation of a region needs; an empty region for an empty one.

    Args:
      grid: size of the grid in voxels along x, y, z.
      spans: the interpolated voxels along x, y, z, in grid coordinates.
      region: the region of the interpolated voxels.
    """
    if not all(region_shape(region)):
        return (slice(0, 0),) * 3
    ends = map(needed_ends, grid, spans)
    return tuple(
        slice(int(first[at.start]), int(last[at.stop - 1])) for (first, last), at in zip(ends, region, strict=True)
    )


@functools.lru_cache(maxsize=16)  # as in `weights`
def needed_ends(n: int, span: Span) -> tuple[np.ndarray, np.ndarray]:
    """Returns the start and the stop of the voxels of an axis of `n` voxels that each voxel of a span needs.

    Both never decrease.
    """
    rows = weights(n, span)
    first, last = (each.reduceat(rows.indices, rows.indptr[:-1]) for each in (np.minimum, np.maximum))
    return np.minimum.accumulate(first[::-1])[::-1], np.maximum.accumulate(last) + 1


@functools.lru_cache(maxsize=1024)  # many parts of a volume have the same rows, and slicing takes long
def _needed_weights(n: int, span: Span, start: int, stop: int) -> "scipy.sparse.csr_array":
    """Returns the weights of some voxels of a span, without the voxels of the axis that they do not need."""
    first, last = needed_ends(n, span)
    return weights(n, span)[start:stop, int(first[start]) : int(last[stop - 1])]


def interpolate_region(values: np.ndarray, grid: Grid, spans: Spans, region: Region, axes: Iterable[int]) -> np.ndarray:
    """Interpolates the values of a grid at the voxels of a region.

    Args:
      values: `[x, y, z, ...]` of the voxels `needed_region(grid, spans, region)`, any numeric type.
      grid, spans, region: the same as in `needed_region`; the region is not empty.
      axes: the order in which the axes are interpolated. The values depend on it, because float32 sums are rounded.

    Returns:
      float32 `[x, y, z, ...]` with the shape of the region. Voxels beyond the grid have the values of its edge.
    """
    for axis in axes:
        if is_same(spans[axis], grid[axis]):
            values = values.astype(np.float32, copy=False)
        else:
            rows = _needed_weights(grid[axis], spans[axis], region[axis].start, region[axis].stop)
            values = multiply(rows, values, axis)
    return values
