"""Functions of the voxels of a region whose results do not depend on the region."""

from collections.abc import Callable

import tensorflow as tf

_VECTOR = 64  # a multiple of the number of values that any CPU computes at once


def each_alike(function: Callable[[tf.Tensor], tf.Tensor], values: tf.Tensor) -> tf.Tensor:
    """Applies a function such as a power or a cosine to each element.

    TensorFlow computes the last elements of a tensor, if they do not fill a vector of the CPU, with another
    implementation, whose results differ in the last bits. Here, the last vector is always full. Sums, products,
    quotients and square roots do not need this function, because all implementations round them correctly.

    Args:
      function: an elementwise function of Tensor[n].
      values: Tensor[...].

    Returns:
      Tensor[...] of the results.
    """
    flat = tf.reshape(values, [-1])
    count = tf.size(flat)
    padded = tf.pad(flat, [[0, -count % _VECTOR]])
    return tf.reshape(function(padded)[:count], tf.shape(values))
