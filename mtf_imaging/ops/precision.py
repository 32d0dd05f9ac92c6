"""The precision of variables, statistics and losses, which need more digits than activations."""

import tensorflow as tf


def master_dtype(dtype: tf.DType | str) -> tf.DType:
    """Returns the dtype of variables, statistics and losses for activations of a dtype: float32 or larger.

    In bfloat16, an update below 1/512 of a weight would be lost, and a sum over the voxels of a volume would stop
    growing.

    Args:
      dtype: dtype of the activations.

    Returns:
      float32 if `dtype` has fewer than 4 bytes, else `dtype`.

    >>> master_dtype("bfloat16"), master_dtype("float64")
    (tf.float32, tf.float64)
    """
    dtype = tf.as_dtype(dtype)
    return tf.float32 if dtype.size < 4 else dtype
