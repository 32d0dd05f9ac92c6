"""Functions of the voxels of a region whose results do not depend on the region.

TensorFlow may compute the same formula in several ways, whose results differ in the last bits. Its choice depends on
the shapes of the tensors and on the graph around them. Products, quotients, square roots and the sum of two tensors are
the same in all ways.
"""

from collections.abc import Callable

import tensorflow as tf

_VECTOR = 64  # a multiple of the number of values that any CPU computes at once


def each_alike(function: Callable[[tf.Tensor], tf.Tensor], values: tf.Tensor) -> tf.Tensor:
    """Applies a function such as a power or a cosine to each element.

    TensorFlow computes the last elements of a tensor, if they do not fill a vector of the CPU, with another
    implementation than the others. Here, the last vector is always full.

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


def add(*terms: tf.Tensor) -> tf.Tensor:
    """Adds tensors, which are broadcast to a common shape, from left to right.

    TensorFlow's graph optimizer rearranges sums of sums, depending on their shapes. It does not look beyond the
    operation that checks the shape, which takes no time.
    """
    total = terms[0]
    for term in terms[1:]:
        total = total + term
        total = tf.ensure_shape(total, total.shape)
    return total
