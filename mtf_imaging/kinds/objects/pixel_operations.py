"""Linear interpolation of images as TensorFlow operations, with the same arithmetic as `reading`."""

from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import index_dtype, is_portable, widest_dtype

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


_THRESHOLD = 0.5  # the same as in reading.masks


class Neighbors(NamedTuple):
    """The pixels around positions on one axis; see `reading.interpolation`.

    Attributes:
      before, after: int64 `[n]`, the index of the pixel on each side.
      weight: float32 `[n]`, the weight of the pixel after the position.
    """

    before: tf.Tensor
    after: tf.Tensor
    weight: tf.Tensor


class Axis(NamedTuple):
    """One axis of a scaled image; see `data.pixels.crop_axis`.

    Attributes:
      length, count: number of pixels in the image and of the scaled image, int64.
      start: the first pixel of the image that the scaled image needs.
      stop: the end of these pixels.
      centers: float32 `[count]`, the centers of the scaled pixels, in pixels of the image from `start`.
      factor: float64, pixels of the scaled image per pixel of the image.
    """

    length: tf.Tensor
    count: tf.Tensor
    start: tf.Tensor
    stop: tf.Tensor
    centers: tf.Tensor
    factor: tf.Tensor

    @classmethod
    def scaled(cls, length: tf.Tensor, factor: tf.Tensor) -> "Axis":
        """Returns an axis of `length` pixels, scaled by a factor."""
        wide = tf.cast(length, widest_dtype())
        count = tf.maximum(tf.cast(tf.round(wide * factor), index_dtype()), 1)
        ratio = tf.cast(length, tf.float32) / tf.cast(count, tf.float32)
        centers = (tf.cast(tf.range(count), tf.float32) + 0.5) * ratio
        start = tf.maximum(tf.cast(tf.floor(centers[0] - 0.5), index_dtype()), 0)
        stop = tf.minimum(length, tf.cast(tf.floor(centers[-1] - 0.5), index_dtype()) + 2)
        return cls(
            length, count, start, stop, centers - tf.cast(start, tf.float32), tf.cast(count, widest_dtype()) / wide
        )


def nearest_pixels(axis: Axis) -> Neighbors:
    """Returns the image pixels nearest to the centers of a scaled axis."""
    around = neighbors(axis.centers - 0.5, axis.stop - axis.start)
    return Neighbors(around.before + axis.start, around.after + axis.start, around.weight)


def neighbors(positions: tf.Tensor, length: tf.Tensor) -> Neighbors:
    """Returns the pixels around positions on one axis.

    Args:
      positions: `[n]`, in pixels; the center of pixel i is at i. Positions beyond the border are moved to it.
      length: pixels of the axis, int64.
    """
    inside = tf.clip_by_value(positions, tf.zeros([], positions.dtype), tf.cast(length - 1, positions.dtype))
    before = tf.floor(inside)
    first = tf.cast(before, index_dtype())
    return Neighbors(first, tf.minimum(first + 1, length - 1), tf.cast(inside - before, tf.float32))


def interpolate(image: tf.Tensor, rows: Neighbors, columns: Neighbors) -> tf.Tensor:
    """Interpolates an image `[height, width, channels]` linearly; returns float32 `[rows, columns, channels]`."""

    def line(at: tf.Tensor) -> tf.Tensor:
        pixels = tf.gather(image, at)
        left, right = (tf.cast(tf.gather(pixels, one, axis=1), tf.float32) for one in (columns.before, columns.after))
        return left + (right - left) * columns.weight[:, tf.newaxis]

    above = line(rows.before)
    return above + (line(rows.after) - above) * rows.weight[:, tf.newaxis, tf.newaxis]


def paste_masks(masks: tf.Tensor, boxes: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Pastes predicted masks into their image, bool `[detections, height, width]`; see `reading.masks.paste_mask`.

    Args:
      masks: `[detections, rows, columns]`, the probabilities of the mask within its box.
      boxes: float64 `[detections, 4]`, y0, x0, y1, x1 in pixels of the image.
      size: height and width of the image.
    """
    if is_portable():
        return paste_all(masks, boxes, size)
    sizes = tf.unstack(tf.cast(size, index_dtype()))

    def paste(inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        mask, box = inputs
        around, inside = [], []
        for axis, (length, count) in enumerate(zip(sizes, mask.shape, strict=True)):
            low, high = box[axis], box[axis + 2]
            pixels = tf.cast(tf.range(length), widest_dtype())
            margin = (high - low) / count / 2
            first, last = tf.math.ceil(low - margin - 0.5), tf.floor(high + margin - 0.5)
            inside.append((pixels >= first) & (pixels <= last) & (high > low))
            # A divisor of 1 keeps positions finite if a box has no extent.
            extent = tf.where(high > low, high - low, tf.ones([], widest_dtype()))
            around.append(
                neighbors((pixels + 0.5 - low) * (count / extent) + 0.5, tf.constant(count + 2, index_dtype()))
            )
        padded = tf.pad(mask, [[1, 1], [1, 1]])
        pasted = interpolate(padded[..., tf.newaxis], *around)[..., 0] >= _THRESHOLD
        return pasted & inside[0][:, tf.newaxis] & inside[1]

    return tf.map_fn(paste, (masks, boxes), fn_output_signature=tf.TensorSpec([None, None], tf.bool))
