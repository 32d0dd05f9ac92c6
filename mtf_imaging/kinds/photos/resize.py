"""Bilinear resizing of arrays."""

import numpy as np


def resize_bilinear(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resizes an array like `tf.image.resize`: bilinear, with pixel centers at half-integer positions.

    Args:
      array: `[height, width, channels]`.
      size: the height and width of the result.

    Returns:
      float32 `[height, width, channels]`.
    """
    result = array.astype(np.float32, copy=False)
    for axis, length in enumerate(size):
        if result.shape[axis] != length:
            result = _resize_axis(result, axis, length)
    return result


def _resize_axis(array: np.ndarray, axis: int, length: int) -> np.ndarray:
    old = array.shape[axis]
    positions = np.clip((np.arange(length) + 0.5) * (old / length) - 0.5, 0, old - 1)
    before = np.floor(positions).astype(np.int64)
    shape = [1] * array.ndim
    shape[axis] = length
    weights = (positions - before).astype(np.float32).reshape(shape)
    first, second = array.take(before, axis), array.take(np.minimum(before + 1, old - 1), axis)
    second -= first
    second *= weights
    first += second
    return first
