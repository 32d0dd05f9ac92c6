"""Constants of exact divisions."""

import numpy.typing as npt
import tensorflow as tf

from mtf_imaging.meshes.portable import is_portable


def divisor(value: npt.ArrayLike, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Returns a divisor, or several divisors.

    TensorFlow replaces a division by a constant with a multiplication by its reciprocal, which differs in the last bit.
    It keeps a division by a placeholder, whose default is the number. Converters to other formats need a constant.

    Args:
      value: the number or the numbers.
      dtype: its dtype.
    """
    constant = tf.constant(value, dtype)
    if is_portable():
        return constant
    return tf.compat.v1.placeholder_with_default(constant, constant.shape)
