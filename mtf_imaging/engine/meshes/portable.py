"""Operations that format converters support, in place of faster or more exact TensorFlow operations."""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence

import numpy.typing as npt
import tensorflow as tf

# The widest dtype of a portable graph; None if operations do not have to be portable.
_widest: contextvars.ContextVar[tf.DType | None] = contextvars.ContextVar("_widest", default=None)


@contextlib.contextmanager
def portable_operations(widest: tf.DType = tf.float64) -> Iterator[None]:
    """Traces graphs within a `with` block for converters to ONNX and TFLite.

    These formats have no bitwise conversion of floats, no product that ignores NaN, no non-maximum suppression with a
    box for each class, and no checks while a model runs. Results are the same for finite numbers, except for the order
    of equal scores and the last bits of quotients.

    Args:
      widest: the dtype of coordinates. TFLite does not compute in float64, and neither divides nor unpacks int64.
    """
    token = _widest.set(widest)
    try:
        yield
    finally:
        _widest.reset(token)


def is_portable() -> bool:
    """Returns whether the caller is within a `portable_operations` block."""
    return _widest.get() is not None


def widest_dtype() -> tf.DType:
    """Returns the dtype of coordinates: float64, unless a format lacks it."""
    return _widest.get() or tf.float64


def index_dtype() -> tf.DType:
    """Returns the dtype of indices: int64, unless a format lacks operations on it."""
    return tf.int64 if widest_dtype() == tf.float64 else tf.int32


def multiply_no_nan(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns `x * y`, and 0 where `y` is 0, even if `x` is NaN; see `tf.math.multiply_no_nan`."""
    if not is_portable():
        return tf.math.multiply_no_nan(x, y)
    return tf.where(tf.equal(y, tf.zeros([], y.dtype)), tf.zeros([], y.dtype), x * y)


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


def ensure_shape(x: tf.Tensor, shape: Sequence[int | None] | tf.TensorShape) -> tf.Tensor:
    """Sets the static shape of a tensor, and checks it when the graph runs unless operations are portable."""
    if not is_portable():
        return tf.ensure_shape(x, shape)
    x = tf.identity(x)
    x.set_shape(shape)
    return x


def pad(x: tf.Tensor, pads: Sequence[Sequence[int]], value: float | tf.Tensor) -> tf.Tensor:
    """Pads a tensor; see `tf.pad`. With values other than 0, TFLite pads only tensors with few dimensions."""
    if not is_portable():
        return tf.pad(x, pads, constant_values=value)
    for axis, (before, after) in enumerate(pads):
        parts = [tf.fill([*x.shape[:axis], n, *x.shape[axis + 1 :]], tf.cast(value, x.dtype)) for n in (before, after)]
        x = tf.concat([parts[0], x, parts[1]], axis) if before or after else x
    return x
