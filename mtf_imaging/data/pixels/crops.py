"""Crops of scaled photos, computed from the pixels that they need.

A crop of a scaled photo needs only a region of the photo. `crop_axis` returns this region and the centers of the crop's
pixels in it, and `bilinear` and `nearest` interpolate there. The result equals `tf.image.resize` (without antialias) of
the whole photo, cropped afterward: exactly for labels, up to the last bits of float32 for photos. A crop of a large
photo therefore does not need a scaled copy.
"""

import tensorflow as tf


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
    """Returns the labels of the nearest pixels, Tensor[n, m].

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
    """Pads an array with rows and columns of a value up to a size.

    Args:
      x: Tensor[height, width, ...].
      size: the height and width of the result.
      value: the value of the new pixels.
    """
    shape = tf.shape(x)
    after = [[0, size[0] - shape[0]], [0, size[1] - shape[1]]] + [[0, 0]] * (x.shape.rank - 2)
    return tf.ensure_shape(tf.pad(x, after, constant_values=value), [*size, *x.shape[2:]])


def _neighbors(centers, length):
    """Returns the pixels before and after each position, and the weight of the pixel after it."""
    positions = centers - 0.5
    before = tf.floor(positions)
    first = tf.cast(before, tf.int32)
    return tf.maximum(first, 0), tf.minimum(first + 1, length - 1), positions - before
