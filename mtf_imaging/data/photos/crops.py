"""Crops of scaled photos, computed from the pixels that they need.

A crop of a scaled photo needs only a region of the photo. `crop_axis` returns this region and the centers of the crop's
pixels in it, and `bilinear` and `nearest` interpolate there. The result is what `tf.image.resize` (without antialias)
makes of the whole photo, cropped afterward: exactly for labels, up to the last bits of float32 for photos. So a crop
of a large photo needs no scaled copy of the photo.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class CropAxis(NamedTuple):
    """One axis of a crop.

    Attributes:
      region: the pixels of the photo that the crop needs.
      centers: float32 `[pixels of the crop]`, the centers of the crop's pixels, in pixels of the photo from the start
        of the region. The first pixel of the region spans 0..1.
    """

    region: slice
    centers: np.ndarray


def scaled_length(length: int, scale: float) -> int:
    """Returns the number of pixels of a scaled axis, at least 1."""
    return max(1, round(length * scale))


def crop_axis(length: int, scale: float, size: int, place: float) -> CropAxis:
    """Places a crop on one axis of a scaled photo.

    Args:
      length: pixels of the photo.
      scale: the factor that multiplies `length`.
      size: pixels of the crop. If the scaled photo has fewer, the crop contains all of them.
      place: a number in 0..1 that selects the position, 0 for the first one and 1 for the last one.
    """
    scaled = scaled_length(length, scale)
    count = min(scaled, size)
    first = min(int(place * (scaled - count + 1)), scaled - count)
    # In float32 and in this order, as in tf.image.resize, so that the nearest pixels are the same.
    ratio = np.float32(length) / np.float32(scaled)
    centers = (np.arange(first, first + count, dtype=np.float32) + np.float32(0.5)) * ratio
    start = max(0, math.floor(centers[0] - 0.5))
    stop = min(length, math.floor(centers[-1] - 0.5) + 2)
    return CropAxis(slice(start, stop), centers - np.float32(start))


def bilinear(pixels, rows, columns):
    """Interpolates a photo linearly.

    Args:
      pixels: Tensor[height, width, channels] uint8.
      rows: Tensor[n] float32, the centers along the height; see `CropAxis`.
      columns: Tensor[m] float32, the centers along the width.

    Returns:
      Tensor[n, m, channels] float32.
    """
    upper_row, lower_row, down = _neighbors(rows, tf.shape(pixels)[0])
    left_column, right_column, right = _neighbors(columns, tf.shape(pixels)[1])

    def row(index):
        line = tf.gather(pixels, index)
        left = tf.cast(tf.gather(line, left_column, axis=1), tf.float32)
        return left + (tf.cast(tf.gather(line, right_column, axis=1), tf.float32) - left) * right[:, tf.newaxis]

    above = row(upper_row)
    with tf.control_dependencies([above]):  # both at once would need twice the memory
        below = row(lower_row)
    return above + (below - above) * down[:, tf.newaxis, tf.newaxis]


def nearest(labels, rows, columns):
    """Takes the labels of the nearest pixels, Tensor[n, m].

    Args:
      labels: Tensor[height, width].
      rows: Tensor[n] float32, the centers along the height; see `CropAxis`.
      columns: Tensor[m] float32, the centers along the width.
    """
    at = [
        tf.minimum(tf.cast(centers, tf.int32), tf.shape(labels)[axis] - 1)
        for axis, centers in enumerate((rows, columns))
    ]
    return tf.gather(tf.gather(labels, at[0]), at[1], axis=1)


def pad_to(x, size: tuple[int, int], value):
    """Appends rows and columns of a value up to a size.

    Args:
      x: Tensor[height, width, ...].
      size: the height and width of the result.
      value: the value of the new pixels.
    """
    shape = tf.shape(x)
    after = [[0, size[0] - shape[0]], [0, size[1] - shape[1]]] + [[0, 0]] * (x.shape.rank - 2)
    return tf.ensure_shape(tf.pad(x, after, constant_values=value), [*size, *x.shape[2:]])


def _neighbors(centers, length):
    """Returns the pixels before and after each position, and the weight of the one after it."""
    positions = centers - 0.5
    before = tf.floor(positions)
    first = tf.cast(before, tf.int32)
    return tf.maximum(first, 0), tf.minimum(first + 1, length - 1), positions - before
