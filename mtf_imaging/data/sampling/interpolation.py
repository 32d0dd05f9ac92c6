"""Interpolation along single axes, as products with sparse matrices."""

import functools

import numpy as np
import scipy  # loads its modules when they are used

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
