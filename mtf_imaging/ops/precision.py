"""What is kept in more digits than activations: variables, statistics, losses and what they are summed from."""

import tensorflow as tf


def master_dtype(dtype: tf.DType | str) -> tf.DType:
    """The dtype of variables, statistics and losses that go with activations of `dtype`: float32 at least.

    A weight in bfloat16 would not move by less than 1/512 of itself, and a sum of a volume's voxels would stop growing.

    >>> master_dtype("bfloat16"), master_dtype("float64")
    (tf.float32, tf.float64)
    """
    dtype = tf.as_dtype(dtype)
    return tf.float32 if dtype.size < 4 else dtype
