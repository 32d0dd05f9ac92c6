"""Resamples volumes to the voxels of spans, and class probabilities back to volumes.

Coordinates follow the half-pixel convention (`half_pixel_centers=True` in TensorFlow). A volume of n voxels along an
axis covers [0, n). Voxel i covers [i, i + 1), and its center is i + 0.5. A `Span` of g voxels over the same field of
view has the centers (j + 0.5) n / g.

Linear resampling multiplies by one sparse matrix per axis. If an axis shrinks, the kernel of linear interpolation is
widened to the size of a voxel of the result, as in `tf.image.resize(..., antialias=True)`. Plain interpolation from 512
to 64 would read 2 of 8 voxels, keep all of the noise and miss small lesions.

Voxels that overlap the volume are interpolated, with the outermost voxel of the volume repeated at the border. Voxels
beyond the volume get a constant value.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.data.sampling.sampling import Span, Spans

_SLAB_BYTES = 32 << 20  # as float32; a few slabs exist at a time


def resample_linear(data: np.ndarray, spans: Spans, beyond: float = 0.0) -> np.ndarray:
    """Resamples a volume linearly; an axis that shrinks is averaged.

    Args:
      data: `[x, y, z]` or `[x, y, z, channels]`, any numeric type.
      spans: the voxels of the result along x, y, z, in coordinates of the volume.
      beyond: value of the voxels beyond the volume.

    Returns:
      float32 `[x, y, z]` or `[x, y, z, channels]`, with the sizes of the spans.
    """
    # The axis that shrinks most comes first, and data are converted in slabs, so no float copy of the whole volume
    # exists. The values depend on the order of the axes. They do not depend on the slabs, because each line of voxels
    # is summed separately.
    order = sorted(range(3), key=lambda axis: spans[axis].size / data.shape[axis])
    result = _apply_in_slabs(data, order[:2], spans, across=order[2])
    if not _is_same(spans[order[2]], data.shape[order[2]]):
        result = _apply_in_slabs(result, order[2:], spans, across=order[0])
    _fill_beyond(result, spans, data.shape, beyond)
    return result


def resample_nearest(labels: np.ndarray, spans: Spans, beyond: int = 0) -> np.ndarray:
    """Resamples labels to the nearest neighbor: each voxel gets the label of the voxel that contains its center.

    Args:
      labels: `[x, y, z]`, any numeric type.
      spans: the voxels of the result along x, y, z, in coordinates of the volume.
      beyond: label of the voxels beyond the volume.

    Returns:
      `[x, y, z]` with the type of `labels` and the sizes of the spans.
    """
    picks = (np.clip(_centers(span), 0, n - 1).astype(np.int64) for n, span in zip(labels.shape, spans, strict=True))
    result = labels[np.ix_(*picks)]
    _fill_beyond(result, spans, labels.shape, beyond)
    return result


def resample_to_labels(probabilities: np.ndarray, spans: Spans, description: Description = LITS) -> np.ndarray:
    """Resamples probabilities linearly and returns the label of each voxel, by `Description.to_labels`.

    Interpolation before the choice of the label gives smooth boundaries; resampled labels would show steps of one grid
    voxel. The computation runs in slabs along z, so it takes little more memory than the labels.

    Args:
      probabilities: `[x, y, z, classes]`, or of the masks if the description has regions, on the grid, any float type;
        computed in float32.
      spans: the voxels of the result along x, y, z, in coordinates of the grid.
      description: the labels or regions of the probabilities.

    Returns:
      uint8 `[x, y, z]` with the sizes of the spans: the labels, 0 beyond the grid.
    """
    *grid, classes = probabilities.shape
    shape = tuple(span.size for span in spans)
    matrix = _weights(grid[2], spans[2])
    labels = np.empty(shape, np.uint8, order="F")  # the order of NIfTI files
    # A slab has planes of the grid before resampling, and then planes of the result; the larger plane counts.
    plane_bytes = 4 * classes * max(grid[0], shape[0]) * max(grid[1], shape[1]) * max(1.0, spans[2].step)
    planes = max(1, int(_SLAB_BYTES // plane_bytes))
    for start in range(0, shape[2], planes):
        stop = min(start + planes, shape[2])
        rows = matrix[start:stop]
        first, last = rows.indices.min(), rows.indices.max() + 1
        slab = _multiply(rows[:, first:last], probabilities[:, :, first:last], 2)
        for axis in (0, 1):
            slab = _apply(slab, axis, spans[axis])
        labels[:, :, start:stop] = description.to_labels(slab)
    _fill_beyond(labels, spans, probabilities.shape, 0)
    return labels


def _fill_beyond(result: np.ndarray, spans: Spans, shape: tuple[int, ...], value: float) -> None:
    """Sets the voxels of `result` that do not overlap a volume of `shape` to `value`."""
    for axis, span in enumerate(spans):
        inside, along = span.inside(shape[axis]), np.moveaxis(result, axis, 0)
        along[: inside.start] = value
        along[inside.stop :] = value


def _centers(span: Span) -> np.ndarray:
    return span.start + (np.arange(span.size) + 0.5) * span.length / span.size


def _apply_in_slabs(data: np.ndarray, axes: Sequence[int], spans: Spans, across: int) -> np.ndarray:
    """Resamples along each of `axes`, in slabs along the axis `across`, into a new array."""
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
    """Returns whether the voxels of a span equal the `n` voxels of the axis."""
    return span == Span(0.0, n, n)


def _multiply(matrix: scipy.sparse.csr_array, data: np.ndarray, axis: int) -> np.ndarray:
    """Contracts `axis` of `data` with the columns of `matrix`."""
    moved = np.moveaxis(data, axis, 0)
    flat = np.ascontiguousarray(moved, np.float32).reshape(moved.shape[0], -1)
    return np.moveaxis((matrix @ flat).reshape(-1, *moved.shape[1:]), 0, axis)


def _weights(n: int, span: Span) -> scipy.sparse.csr_array:
    """Returns a sparse matrix `[size, n]` of interpolation weights.

    Row j is a triangle of radius max(1, step) around the center of voxel j, scaled to sum 1. Scaling over the existing
    voxels repeats the outermost voxel where the triangle extends past the border.
    """
    radius = max(1.0, span.step)
    centers = np.clip(_centers(span), 0, n)  # gives voxels beyond the border a weight above 0
    first = np.floor(centers - radius).astype(np.int64)
    columns = first[:, None] + np.arange(int(np.ceil(2 * radius)) + 1)
    values = np.maximum(0.0, 1.0 - np.abs(columns + 0.5 - centers[:, None]) / radius)
    values *= (columns >= 0) & (columns < n)
    values /= values.sum(axis=1, keepdims=True)
    rows = np.broadcast_to(np.arange(span.size)[:, None], columns.shape)
    kept = values > 0
    entries = (values[kept].astype(np.float32), (rows[kept], columns[kept]))
    return scipy.sparse.csr_array(entries, shape=(span.size, n))
