"""Pastes predicted masks into their image, using operations that format converters support."""

import tensorflow as tf

_THRESHOLD = 0.5  # the same as in reading.masks


def paste_all(masks: tf.Tensor, boxes: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Pastes all masks at once; `pixel_operations.paste_masks` pastes them one after the other.

    Args:
      masks: `[detections, rows, columns]`, the probabilities of the mask within its box.
      boxes: float64 `[detections, 4]`, y0, x0, y1, x1 in pixels of the image.
      size: height and width of the image.
    """
    sides = tf.unstack(tf.cast(size, tf.int32))
    rows, columns = (
        _weights(boxes[:, axis], boxes[:, axis + 2], length, masks.shape[axis + 1]) for axis, length in enumerate(sides)
    )
    values = tf.matmul(tf.matmul(rows, tf.cast(masks, tf.float32)), columns, transpose_b=True)
    return values >= _THRESHOLD


def _weights(low: tf.Tensor, high: tf.Tensor, length: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the weights of linear interpolation along one axis, float32 `[detections, length, count]`.

    If a pixel is farther from all cells of the mask than the length of a cell, or if its box has no extent, all of its
    weights are 0. This equals the interpolation of a mask that is padded with zeros.
    """
    centers = tf.cast(tf.range(length), low.dtype) + 0.5
    extent = tf.where(high > low, high - low, tf.ones([], low.dtype))
    places = (centers - low[:, tf.newaxis]) * (count / extent)[:, tf.newaxis] - 0.5
    cells = tf.cast(tf.range(count), low.dtype)
    weights = tf.maximum(tf.zeros([], low.dtype), 1.0 - tf.abs(tf.expand_dims(places, -1) - cells))
    has_extent = (high > low)[:, tf.newaxis, tf.newaxis]
    return tf.cast(tf.where(has_extent, weights, tf.zeros([], low.dtype)), tf.float32)
