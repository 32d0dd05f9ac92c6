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

import numpy as np
import scipy.sparse

from mtf_imaging.data.sampling import Span, Spans

_SLAB_BYTES = 64 << 20


def resample_linear(data: np.ndarray, spans: Spans, beyond: float = 0.0) -> np.ndarray:
    """Resamples a volume linearly, averaging where it shrinks.

    Args:
      data: `[x, y, z]` or `[x, y, z, channels]`, any number type.
      spans: the voxels of the result along x, y, z of the volume.
      beyond: value of the voxels that lie beyond the volume.

    Returns:
      float32 `[x, y, z]` or `[x, y, z, channels]`, of the sizes of the spans.
    """
    # The axis that shrinks most first, in slabs across another: the float copy of the volume never exists as a whole.
    order = sorted(range(3), key=lambda axis: spans[axis].size / data.shape[axis])
    first, across = order[0], order[-1]
    slabs = [_apply(slab, first, spans[first]) for slab in _slabs(data, across)]
    result = np.concatenate(slabs, axis=across)
    for axis in order[1:]:
        result = _apply(result, axis, spans[axis])
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
    Works in slabs along z, so that memory is that of the labels.

    Args:
      probabilities: `[x, y, z, classes]`, on the grid.
      spans: the voxels of the result along x, y, z of the grid.

    Returns:
      uint8 `[x, y, z]` of the sizes of the spans, the index of the class; 0 beyond the grid.
    """
    probabilities = np.asarray(probabilities, np.float32)
    shape = tuple(span.size for span in spans)
    matrix = _weights(probabilities.shape[2], spans[2])
    labels = np.empty(shape, np.uint8)
    plane_bytes = 4 * shape[0] * shape[1] * probabilities.shape[3]
    planes = max(1, _SLAB_BYTES // plane_bytes)
    for start in range(0, shape[2], planes):
        stop = min(start + planes, shape[2])
        slab = _multiply(matrix[start:stop], probabilities, 2)
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


def _slabs(data: np.ndarray, axis: int) -> list[np.ndarray]:
    parts = -(-data.size * 4 // _SLAB_BYTES)
    return np.array_split(data, min(max(parts, 1), data.shape[axis]), axis=axis)


def _apply(data: np.ndarray, axis: int, span: Span) -> np.ndarray:
    n = data.shape[axis]
    if span == Span(0.0, n, n):
        return data.astype(np.float32, copy=False)
    return _multiply(_weights(n, span), data, axis)


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
