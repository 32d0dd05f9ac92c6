"""References for resizes, written from the definition, and for `pad`, in plain TensorFlow."""

import numpy as np
import tensorflow as tf


def _nearest(size, outputs, align_corners):
    """Returns the source of every voxel. TensorFlow decides how to round a center on the border of two voxels."""
    with tf.init_scope():
        line = tf.reshape(tf.range(size), [1, size, 1, 1])
        if align_corners:
            return tf.compat.v1.image.resize_nearest_neighbor(line, [outputs, 1], align_corners=True).numpy().ravel()
        return tf.image.resize(line, [outputs, 1], "nearest").numpy().ravel()


def matrix(size, outputs, method, align_corners=False):
    """Returns the weights of every voxel, `[outputs, size]`."""
    if method == "repeat":
        return np.repeat(np.eye(size), -(-outputs // size), 0)[:outputs]
    if method == "nearest":
        return np.eye(size)[_nearest(size, outputs, align_corners)]
    if align_corners:
        centers = np.arange(outputs) * (size - 1) / max(outputs - 1, 1)
    else:
        centers = (np.arange(outputs) + 0.5) * size / outputs - 0.5
    inside = np.clip(centers, 0, size - 1)  # The border repeats beyond the volume.
    return np.maximum(0, 1 - np.abs(inside[:, np.newaxis] - np.arange(size)))


def resize(x, sizes, method, align_corners=False):
    """Resizes `x[batch, spatial..., channels]`, one spatial dimension at a time."""
    for axis, size in enumerate(sizes, 1):
        weights = tf.cast(matrix(x.shape[axis], size, method, align_corners), x.dtype)
        x = tf.experimental.numpy.moveaxis(tf.tensordot(weights, x, [[1], [axis]]), 0, axis)
    return x


def pad(x, paddings, mode):
    """Pads the spatial dimensions of `x[batch, spatial..., channels]`."""
    return tf.pad(x, [(0, 0), *paddings, (0, 0)], mode)
