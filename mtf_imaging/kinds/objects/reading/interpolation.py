"""Linear interpolation of arrays at the crossings of rows and columns, without TensorFlow."""

from typing import NamedTuple

import numpy as np


class Neighbors(NamedTuple):
    """The pixels around positions on one axis.

    Attributes:
      before, after: the index of the pixel on each side; equal beyond the border.
      weight: float32, the weight of the pixel after the position.
    """

    before: np.ndarray
    after: np.ndarray
    weight: np.ndarray


def neighbors(positions: np.ndarray, length: int) -> Neighbors:
    """Returns the pixels around positions on one axis.

    Args:
      positions: `[n]`, in pixels; the center of pixel i is at i. Positions beyond the border are moved to it.
      length: pixels of the axis.
    """
    inside = np.clip(positions, 0, length - 1)
    before = np.floor(inside).astype(np.int64)
    return Neighbors(before, np.minimum(before + 1, length - 1), (inside - before).astype(np.float32))


def interpolate(image: np.ndarray, rows: Neighbors, columns: Neighbors) -> np.ndarray:
    """Interpolates an image linearly.

    Args:
      image: `[height, width, ...]`.
      rows, columns: the positions of the result.

    Returns:
      float32 `[rows, columns, ...]`.
    """
    channels = (1,) * (image.ndim - 2)
    across = columns.weight.reshape(1, -1, *channels)

    def line(at: np.ndarray) -> np.ndarray:
        left, right = (image[np.ix_(at, one)].astype(np.float32) for one in (columns.before, columns.after))
        return left + (right - left) * across

    above = line(rows.before)
    return above + (line(rows.after) - above) * rows.weight.reshape(-1, 1, *channels)
