"""The precision of variables, statistics and losses, and the rank of each kind of number."""

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf

# The keys are NumPy's kind codes.
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
INTEGERS = 1  # the rank of integers


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


def widen(x: mtf.Tensor) -> mtf.Tensor:
    """Converts a tensor to float32 if it has fewer bits. The losses of `mi.ops` do so themselves.

    Args:
      x: Tensor[...]

    Returns:
      Tensor[...] in `mi.ops.master_dtype(x.dtype)`.
    """
    return mtf.cast(x, master_dtype(x.dtype))


def rank(dtype: np.dtype | tf.DType) -> int | None:
    """Returns 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers, and None for any other dtype.

    A cast to a dtype of lower rank changes values, such as 1.5 cast to an integer dtype.
    """
    dtype = np.dtype(dtype.as_numpy_dtype) if isinstance(dtype, tf.DType) else dtype
    return _RANKS.get("f" if dtype == tf.bfloat16.as_numpy_dtype else dtype.kind)
