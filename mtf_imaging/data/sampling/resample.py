"""Resample volumes to the voxels that spans place along their axes, and class probabilities back.

Half-pixel convention: a volume of n voxels along an axis covers [0, n); voxel i covers [i, i + 1) and its centre is i +
0.5. A `Span` of g voxels over the same field of view has the centres (j + 0.5) n / g. (TensorFlow:
`half_pixel_centers=True`.)

Linear resampling is a product with one sparse matrix an axis. Where an axis shrinks, the hat of linear interpolation is
widened to cover a voxel of the result (as `tf.image.resize(..., antialias=True)`): plain interpolation at 512 -> 64
would read 2 voxels of 8, keep all of the noise, and miss small lesions.

Voxels that cover anything of the volume are sampled, the outermost one repeated where they reach past it; those that
lie beyond it take a value that the caller gives.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from mtf_imaging.data.sampling.sampling import Span, Spans

_SLAB_BYTES = 32 << 20  # as float32; a few of this size are made at a time


def resample_linear(data: np.ndarray, spans: Spans, beyond: float = 0.0) -> np.ndarray:
    """Resamples a volume linearly, averaging where it shrinks.

    Args:
      data: `[x, y, z]` or `[x, y, z, channels]`, any number type.
      spans: the voxels of the result along x, y, z of the volume.
      beyond: value of the voxels that lie beyond the volume.

    Returns:
      float32 `[x, y, z]` or `[x, y, z, channels]`, of the sizes of the spans.
    """
    # The axis that shrinks most first, and in slabs: a float copy of the volume never exists as a whole. Values do not
    # depend on the slabs, for each line of voxels is summed alone; they do on the order of the axes.
    order = sorted(range(3), key=lambda axis: spans[axis].size / data.shape[axis])
    result = _apply_in_slabs(data, order[:2], spans, across=order[2])
    if not _is_same(spans[order[2]], data.shape[order[2]]):
        result = _apply_in_slabs(result, order[2:], spans, across=order[0])
    _fill_beyond(result, spans, data.shape, beyond)
    return result


def resample_nearest(labels: np.ndarray, spans: Spans, beyond: int = 0) -> np.ndarray:
    """Resamples labels `[x, y, z]`: each voxel takes the label of the voxel that its centre lies in.

    Args:
      labels: `[x, y, z]`, any number type.
      spans: the voxels of the result along x, y, z of the volume.
      beyond: label of the voxels that lie beyond the volume.

    Returns:
      `[x, y, z]` of the type of `labels`, of the sizes of the spans.
    """
    picks = (np.clip(_centres(span), 0, n - 1).astype(np.int64) for n, span in zip(labels.shape, spans, strict=True))
    result = labels[np.ix_(*picks)]
    _fill_beyond(result, spans, labels.shape, beyond)
    return result


def resample_to_labels(probabilities: np.ndarray, spans: Spans) -> np.ndarray:
    """Resamples class probabilities linearly and takes the most probable class of each voxel.

    Interpolating before the arg max puts boundaries between the voxels of the grid, where labels would make steps.
    Works in slabs along z, each of the planes of the grid that it needs, so that memory is that of the labels.

    Args:
      probabilities: `[x, y, z, classes]`, on the grid; of any float type, computed with in float32.
      spans: the voxels of the result along x, y, z of the grid.

    Returns:
      uint8 `[x, y, z]` of the sizes of the spans, the index of the class; 0 beyond the grid.
    """
    *grid, classes = probabilities.shape
    shape = tuple(span.size for span in spans)
    matrix = _weights(grid[2], spans[2])
    labels = np.empty(shape, np.uint8, order="F")  # as files are
    # A slab has the planes of the grid first, then those of the result.
    plane_bytes = 4 * classes * max(grid[0], shape[0]) * max(grid[1], shape[1]) * max(1.0, spans[2].step)
    planes = max(1, int(_SLAB_BYTES // plane_bytes))
    for start in range(0, shape[2], planes):
        stop = min(start + planes, shape[2])
        rows = matrix[start:stop]
        first, last = rows.indices.min(), rows.indices.max() + 1
        slab = _multiply(rows[:, first:last], probabilities[:, :, first:last], 2)
        for axis in (0, 1):
            slab = _apply(slab, axis, spans[axis])
        labels[:, :, start:stop] = np.argmax(slab, axis=-1)
    _fill_beyond(labels, spans, probabilities.shape, 0)
    return labels


def _fill_beyond(result: np.ndarray, spans: Spans, shape: tuple[int, ...], value: float) -> None:
    """Sets the voxels of `result` that cover nothing of a volume of `shape`."""
    for axis, span in enumerate(spans):
        inside, along = span.inside(shape[axis]), np.moveaxis(result, axis, 0)
        along[: inside.start] = value
        along[inside.stop :] = value


def _centres(span: Span) -> np.ndarray:
    return span.start + (np.arange(span.size) + 0.5) * span.length / span.size


def _apply_in_slabs(data: np.ndarray, axes: Sequence[int], spans: Spans, across: int) -> np.ndarray:
    """Resamples along `axes`, one after the other, in slabs across another axis; always into an array of its own."""
    shape = list(data.shape)
    for axis in axes:
        shape[axis] = spans[axis].size
    result = np.empty(shape, np.float32)
    num_slabs = -(-4 * max(data.size, result.size) // _SLAB_BYTES)
    bounds = np.linspace(0, shape[across], min(num_slabs, shape[across]) + 1).astype(int)
    for start, stop in itertools.pairwise(bounds):
        at = (slice(None),) * across + (slice(start, stop),)
        slab = data[at]
        for axis in axes:
            slab = _apply(slab, axis, spans[axis])
        result[at] = slab
    return result


def _apply(data: np.ndarray, axis: int, span: Span) -> np.ndarray:
    n = data.shape[axis]
    if _is_same(span, n):
        return data.astype(np.float32, copy=False)
    return _multiply(_weights(n, span), data, axis)


def _is_same(span: Span, n: int) -> bool:
    """Whether the voxels of a span are the `n` voxels that there are."""
    return span == Span(0.0, n, n)


def _multiply(matrix: scipy.sparse.csr_array, data: np.ndarray, axis: int) -> np.ndarray:
    """Contracts `axis` of `data` with the columns of `matrix`."""
    moved = np.moveaxis(data, axis, 0)
    flat = np.ascontiguousarray(moved, np.float32).reshape(moved.shape[0], -1)
    return np.moveaxis((matrix @ flat).reshape(-1, *moved.shape[1:]), 0, axis)


def _weights(n: int, span: Span) -> scipy.sparse.csr_array:
    """Sparse `[size, n]`: row j is the hat of radius max(1, step) around the centre of voxel j, scaled to sum 1.

    Scaling to 1 over the voxels that exist repeats the outermost voxel where a linear hat reaches past the border.
    """
    radius = max(1.0, span.step)
    centres = np.clip(_centres(span), 0, n)  # so that voxels half outside, or beyond, have some weight, too
    first = np.floor(centres - radius).astype(np.int64)
    columns = first[:, None] + np.arange(int(np.ceil(2 * radius)) + 1)
    values = np.maximum(0.0, 1.0 - np.abs(columns + 0.5 - centres[:, None]) / radius)
    values *= (columns >= 0) & (columns < n)
    values /= values.sum(axis=1, keepdims=True)
    rows = np.broadcast_to(np.arange(span.size)[:, None], columns.shape)
    kept = values > 0
    entries = (values[kept].astype(np.float32), (rows[kept], columns[kept]))
    return scipy.sparse.csr_array(entries, shape=(span.size, n))
