"""The order of scores, including scores that are not finite, as an order of integers.

TensorFlow's kernels order NaN by its position. As integers, all scores have the same order under every layout: NaN is
larger than infinity, and the first of equal scores comes first.
"""

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import is_portable


def key_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype of keys for scores of a dtype; integer scores are their own keys."""
    if not dtype.is_floating:
        return dtype
    return tf.int64 if dtype == tf.float64 else tf.int32


def keys(scores: tf.Tensor) -> tf.Tensor:
    """Returns integers in the order of scores; the key of a floating-point score is never the smallest integer.

    The tails of slices get the smallest integer, so that they come after scores of minus infinity. Read as integers,
    the bits of positive numbers have the order of the numbers, and the bits of negative numbers the reverse order. Only
    bitwise operations are used, because TensorFlow computes many other operations on int32 on the host of a GPU.
    Portable operations compare the scores themselves.
    """
    if not scores.dtype.is_floating:
        return scores
    scores = scores if scores.dtype == tf.float64 else tf.cast(scores, tf.float32)
    if is_portable():
        return scores
    scores = tf.where(scores == 0, tf.zeros([], scores.dtype), scores)  # -0 equals 0
    scores = tf.where(tf.math.is_nan(scores), tf.constant(float("nan"), scores.dtype), scores)  # NaN may have a sign
    return _flip_negative(tf.bitcast(scores, key_dtype(scores.dtype)))


def scores(keys: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Returns the scores of keys; the inverse of `keys`."""
    if not dtype.is_floating:
        return keys
    if is_portable():
        return tf.cast(keys, dtype)
    wide = tf.float64 if dtype == tf.float64 else tf.float32
    return tf.cast(tf.bitcast(_flip_negative(keys), wide), dtype)


def _flip_negative(bits: tf.Tensor) -> tf.Tensor:
    """Inverts all bits but the sign of negative integers."""
    negative = tf.bitwise.right_shift(bits, tf.constant(8 * bits.dtype.size - 1, bits.dtype))  # -1 or 0
    magnitude = tf.constant(bits.dtype.max, bits.dtype)
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.bitwise_and(negative, magnitude))
