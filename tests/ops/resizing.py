"""A reference for `resize2d` and `resize3d` in plain TensorFlow, written from the definition."""

import numpy as np
import tensorflow as tf


def matrix(size, outputs, method):
    """Returns the weights of every voxel, `[outputs, size]`."""
    if method == "nearest":  # TensorFlow itself decides how to round a center on the border of two voxels.
        with tf.init_scope():
            line = tf.reshape(tf.range(size), [1, size, 1, 1])
            return np.eye(size)[tf.image.resize(line, [outputs, 1], "nearest").numpy().ravel()]
    centers = (np.arange(outputs) + 0.5) * size / outputs - 0.5
    inside = np.clip(centers, 0, size - 1)  # The border repeats beyond the volume.
    return np.maximum(0, 1 - np.abs(inside[:, np.newaxis] - np.arange(size)))


def resize(x, sizes, method):
    """Resizes `x[batch, spatial..., channels]`, one spatial dimension at a time."""
    for axis, size in enumerate(sizes, 1):
        weights = tf.cast(matrix(x.shape[axis], size, method), x.dtype)
        x = tf.experimental.numpy.moveaxis(tf.tensordot(weights, x, [[1], [axis]]), 0, axis)
    return x
