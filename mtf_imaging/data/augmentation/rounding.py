"""Functions whose results for a voxel do not depend on the region that is computed.

TensorFlow may compute the same formula in several ways, whose results differ in the last bits. Its choice depends on
the shapes of the tensors and on the graph around them. Products, quotients, square roots and sums of two tensors always
have the same result.
"""

from collections.abc import Callable

import tensorflow as tf

_VECTOR = 64  # a multiple of every CPU's vector length


def each_alike(function: Callable[[tf.Tensor], tf.Tensor], values: tf.Tensor) -> tf.Tensor:
    """Applies a function such as a power or a cosine to each element.

    If the last elements of a tensor do not fill a CPU vector, TensorFlow computes them with a different implementation.
    Here, the last vector is always full.

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
    """Adds tensors from left to right, after broadcasting them to a common shape.

    TensorFlow's graph optimizer rearranges nested sums, depending on their shapes. It stops at the operation that
    checks the shape, which takes no time.
    """
    total = terms[0]
    for term in terms[1:]:
        total = total + term
        total = tf.ensure_shape(total, total.shape)
    return total
