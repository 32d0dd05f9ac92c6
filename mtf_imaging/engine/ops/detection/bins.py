"""RoI bins as weighted rows of a table that holds the pixels of one device.

Each bin has one sample at its center. The sample interpolates the four pixels around it. A processor knows the samples
of all bins, but only the pixels of its own slices; all other pixels get a weight of 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import multiply_no_nan


class Pieces(NamedTuple):
    """The slices of all levels' feature maps, and their positions in the table of a device.

    Attributes:
      extents: int64 [processors, levels, 2, 3], for the rows and the columns of a level: the size of the whole
          dimension, the first element of a slice, and its number of elements.
      sizes: (rows, columns) of the stored slices of each level.
      starts: the position of each level's first slice.
      steps: the distance between the slices of two processors for each level; 0 if all processors share one.
      strides: the pixels of the image for each pixel of a level.
      center: the center of the first pixel of a level, in pixels of the level.
    """

    extents: tf.Tensor
    sizes: Sequence[tuple[int, int]]
    starts: Sequence[int]
    steps: Sequence[int]
    strides: Sequence[int]
    center: float


class Corner(NamedTuple):
    """One of the four pixels around the samples.

    Attributes:
      rows: int64 [processors, batch, rois, bins along y, bins along x], the rows of the table; -1 if the pixel belongs
        to another processor.
      weights: the weights of these pixels, with the same shape; 0 if the pixel belongs to another processor.
    """

    rows: tf.Tensor
    weights: tf.Tensor


def _taps(
    low: tf.Tensor, high: tf.Tensor, stride: tf.Tensor, extent: tf.Tensor, center: float, bins: int
) -> list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Returns (slice element, whether the slice has it, weight) for both neighbors of each sample along one axis."""
    dtype = low.dtype
    # Not tf.unstack, which TFLite lacks for int64.
    whole, first, count = (extent[..., part : part + 1] for part in range(3))
    fractions = tf.constant([(i + 0.5) / bins for i in range(bins)], dtype)
    centers = low[..., tf.newaxis] + fractions * (high - low)[..., tf.newaxis]
    position = centers / stride[..., tf.newaxis] - tf.constant(center, dtype)
    position = tf.clip_by_value(position, tf.zeros([], dtype), tf.cast(whole - 1, dtype))
    below = tf.floor(position)
    taps = []
    for offset, weight in ((0, 1 - (position - below)), (1, position - below)):
        element = tf.cast(below, tf.int64) + offset - first
        taps.append((element, (element >= 0) & (element < count), weight))
    return taps


def corners(boxes: tf.Tensor, levels: tf.Tensor, pieces: Pieces, size: tuple[int, int]) -> list[Corner]:
    """Returns the four pixels around the samples of all bins.

    The arithmetic is in int64, because TensorFlow computes many operations on int32 on the host of a GPU.

    Args:
      boxes: [processors, batch, rois, 4], as y0, x0, y1, x1 in pixels of the image.
      levels: int [processors, batch, rois], the level of each box.
      pieces: the stored slices.
      size: the number of bins along y and x.
    """
    n, batch, _ = levels.shape
    levels = tf.clip_by_value(levels, 0, len(pieces.sizes) - 1)

    def by_level(values: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        return tf.gather(tf.constant(values, dtype), levels)

    extents = tf.gather(pieces.extents, levels, axis=1, batch_dims=1)
    stride = by_level(pieces.strides, boxes.dtype)
    y0, x0, y1, x1 = tf.unstack(boxes, axis=-1)
    along_y = _taps(y0, y1, stride, extents[..., 0, :], pieces.center, size[0])
    along_x = _taps(x0, x1, stride, extents[..., 1, :], pieces.center, size[1])

    areas = [rows * columns for rows, columns in pieces.sizes]
    row = by_level(pieces.starts, tf.int64)
    row += by_level(pieces.steps, tf.int64) * tf.range(n, dtype=tf.int64)[:, tf.newaxis, tf.newaxis]
    row += by_level(areas, tf.int64) * tf.range(batch, dtype=tf.int64)[:, tf.newaxis]
    row = row[..., tf.newaxis, tf.newaxis]
    columns = by_level([columns for _, columns in pieces.sizes], tf.int64)[..., tf.newaxis, tf.newaxis]

    result = []
    for y, has_y, weight_y in along_y:
        for x, has_x, weight_x in along_x:
            inside = has_y[..., tf.newaxis] & has_x[..., tf.newaxis, :]
            rows = row + y[..., tf.newaxis] * columns + x[..., tf.newaxis, :]
            weights = weight_y[..., tf.newaxis] * weight_x[..., tf.newaxis, :]
            weights = tf.where(inside, weights, tf.zeros([], weights.dtype))
            result.append(Corner(tf.where(inside, rows, tf.constant(-1, tf.int64)), weights))
    return result


def weighted_sum(pixels: tf.Tensor, samples: Sequence[Corner]) -> tf.Tensor:
    """Returns the samples: `[processors, batch, rois, bins along y, bins along x, channels]`.

    Pixels with a weight of 0 do not count, even if they are NaN: they may be the tails of a slice.

    Args:
      pixels: the table, [pixels, channels].
      samples: the result of `corners`.
    """
    dtype = samples[0].weights.dtype
    terms = [
        multiply_no_nan(tf.cast(tf.gather(pixels, tf.maximum(c.rows, 0)), dtype), c.weights[..., tf.newaxis])
        for c in samples
    ]
    return tf.add_n(terms)


def scattered_sum(dy: tf.Tensor, samples: Sequence[Corner], num_pixels: int) -> tf.Tensor:
    """Returns the adjoint of `weighted_sum`: a table [num_pixels, channels]. Rows of -1 are dropped."""
    terms = [tf.reshape(dy * c.weights[..., tf.newaxis], [-1, dy.shape[-1]]) for c in samples]
    rows = [tf.reshape(c.rows, [-1]) for c in samples]
    return tf.math.unsorted_segment_sum(tf.concat(terms, 0), tf.concat(rows, 0), num_pixels)
