"""Resample volumes to a grid that spans the same field of view, and class probabilities back.

Half-pixel convention: a volume of n voxels along an axis covers [0, n); voxel i covers [i, i + 1) and its centre is i +
0.5. Voxel j of g covers the g-th part of the same field of view, so its centre is (j + 0.5) n / g. (TensorFlow:
`half_pixel_centers=True`.)

Linear resampling is a product with one sparse matrix an axis. Where an axis shrinks, the hat of linear interpolation is
widened to cover n / g voxels (as `tf.image.resize(..., antialias=True)`): plain interpolation at 512 -> 64 would read 2
voxels of 8, keep all of the noise, and miss small lesions.
"""

import numpy as np
import scipy.sparse

_SLAB_BYTES = 64 << 20


def resample_linear(data: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Resamples a volume linearly, averaging where it shrinks.

    Args:
      data: `[x, y, z]` or `[x, y, z, channels]`, any number type.
      shape: voxels along x, y, z of the result.

    Returns:
      float32 `[*shape]` or `[*shape, channels]`.
    """
    # The axis that shrinks most first, in slabs across another: the float copy of the volume never exists as a whole.
    order = sorted(range(3), key=lambda axis: shape[axis] / data.shape[axis])
    first, across = order[0], order[-1]
    slabs = [_apply(slab, first, shape[first]) for slab in _slabs(data, across)]
    result = np.concatenate(slabs, axis=across)
    for axis in order[1:]:
        result = _apply(result, axis, shape[axis])
    return result


def resample_nearest(labels: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Resamples labels `[x, y, z]` to `[*shape]`: each voxel takes the label of the voxel that its centre lies in."""
    picks = (
        np.minimum((np.arange(g) + 0.5) * n / g, n - 1).astype(np.int64)
        for n, g in zip(labels.shape, shape, strict=True)
    )
    return labels[np.ix_(*picks)]


def resample_to_labels(probabilities: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Resamples class probabilities linearly and takes the most probable class of each voxel.

    Interpolating before the arg max puts boundaries between the voxels of the grid, where labels would make steps.
    Works in slabs along z, so that memory is that of the labels.

    Args:
      probabilities: `[x, y, z, classes]`.
      shape: voxels along x, y, z of the result.

    Returns:
      uint8 `[*shape]`, the index of the class.
    """
    probabilities = np.asarray(probabilities, np.float32)
    matrix = _weights(probabilities.shape[2], shape[2])
    labels = np.empty(shape, np.uint8)
    plane_bytes = 4 * shape[0] * shape[1] * probabilities.shape[3]
    planes = max(1, _SLAB_BYTES // plane_bytes)
    for start in range(0, shape[2], planes):
        stop = min(start + planes, shape[2])
        slab = _multiply(matrix[start:stop], probabilities, 2)
        for axis in (0, 1):
            slab = _apply(slab, axis, shape[axis])
        labels[:, :, start:stop] = np.argmax(slab, axis=-1)
    return labels


def _slabs(data: np.ndarray, axis: int) -> list[np.ndarray]:
    parts = -(-data.size * 4 // _SLAB_BYTES)
    return np.array_split(data, min(max(parts, 1), data.shape[axis]), axis=axis)


def _apply(data: np.ndarray, axis: int, size: int) -> np.ndarray:
    if data.shape[axis] == size:
        return data.astype(np.float32, copy=False)
    return _multiply(_weights(data.shape[axis], size), data, axis)


def _multiply(matrix: scipy.sparse.csr_array, data: np.ndarray, axis: int) -> np.ndarray:
    """Contracts `axis` of `data` with the columns of `matrix`."""
    moved = np.moveaxis(data, axis, 0)
    flat = np.ascontiguousarray(moved, np.float32).reshape(moved.shape[0], -1)
    return np.moveaxis((matrix @ flat).reshape(-1, *moved.shape[1:]), 0, axis)


def _weights(n: int, g: int) -> scipy.sparse.csr_array:
    """Sparse `[g, n]`: row j is the hat of radius max(1, n / g) around the centre of voxel j, scaled to sum 1.

    Scaling to 1 over the voxels that exist repeats the outermost voxel where a linear hat reaches past the border.
    """
    radius = max(1.0, n / g)
    centres = (np.arange(g) + 0.5) * n / g
    first = np.floor(centres - radius).astype(np.int64)
    columns = first[:, None] + np.arange(int(np.ceil(2 * radius)) + 1)
    values = np.maximum(0.0, 1.0 - np.abs(columns + 0.5 - centres[:, None]) / radius)
    values *= (columns >= 0) & (columns < n)
    values /= values.sum(axis=1, keepdims=True)
    rows = np.broadcast_to(np.arange(g)[:, None], columns.shape)
    kept = values > 0
    entries = (values[kept].astype(np.float32), (rows[kept], columns[kept]))
    return scipy.sparse.csr_array(entries, shape=(g, n))
