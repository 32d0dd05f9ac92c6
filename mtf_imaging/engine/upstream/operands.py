"""Checks that an `mtf.Tensor` is combined only with other tensors and with numbers.

mesh_tensorflow 0.1.21 multiplies a tensor by anything that TensorFlow can multiply slices by. An array is then
multiplied by each slice, so its axes match the dimensions of the tensor only under some layouts.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf, replace_function
from mtf_imaging.engine.layout import format_shape
from mtf_imaging.engine.ops.precision import rank
from mtf_imaging.errors import ShapeError

_BINARY = (
    *(mtf.add, mtf.sub, mtf.multiply, mtf.divide, mtf.floordiv, mtf.mod, mtf.minimum, mtf.maximum),
    *(mtf.less, mtf.less_equal, mtf.greater, mtf.greater_equal, mtf.equal, mtf.not_equal),
    *(mtf.logical_and, mtf.logical_or),
)
_KINDS = ("bool", "int32", "float32", "complex64")
_number = mtf.constant


def describe(tensor: mtf.Tensor) -> str:
    """Returns the name and the shape of a tensor, for error messages."""
    dims = format_shape((dim.name, dim.size) for dim in tensor.shape.dims)
    return f"the tensor '{tensor.name}' [{dims}]"


def operand(value: Any, tensor: mtf.Tensor, function: str) -> Any:
    """Returns the other operand of a tensor as a Python number, or as a `tf.Tensor` or `tf.Variable` of one number.

    Args:
      value: the other operand, not an `mtf.Tensor`.
      tensor: the tensor.
      function: name of the mtf function, for error messages.

    Raises:
      ShapeError: the value is an array, not a number, or not a number of the tensor's dtype.
    """
    title, dtype = f"mtf.{function}: {describe(tensor)}", tensor.dtype
    of_tensorflow = isinstance(value, tf.Tensor | tf.Variable)
    array = value if of_tensorflow else _array(value)
    if of_tensorflow and value.dtype != dtype:
        raise ShapeError(
            f"{title} has dtype {dtype.name}, but the tf.Tensor has dtype {value.dtype.name}. "
            "Fix: convert one of them with mtf.cast or tf.cast."
        )
    kind = rank(array.dtype)
    if kind is None:
        raise ShapeError(
            f"{title} cannot be combined with {value!r} ({type(value).__name__}). Fix: use a number or an mtf.Tensor."
        )
    if array.shape != ():
        raise ShapeError(
            f"{title} cannot be combined with an array of shape {list(array.shape)}, whose axes have no names. Fix: "
            "pass the array as another input of the program, or use mtf.import_tf_tensor(mesh, array, shape)."
        )
    if kind > (rank(dtype) or 0):
        raise ShapeError(
            f"{title} has dtype {dtype.name}, which cannot represent {value!r}. "
            f"Fix: convert the tensor, for instance with mtf.cast(x, tf.{_KINDS[kind]})."
        )
    if of_tensorflow:
        return value
    return array.item() if dtype.is_bool or kind > 0 else int(array)


def _array(value: object) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # nested lists of different lengths
        return np.asarray(None)


def checked(function: Callable[..., mtf.Tensor]) -> Callable[..., mtf.Tensor]:
    """Returns a binary mtf function that checks its operands."""
    name = function.__name__

    @functools.wraps(function)
    def call(x1: object, x2: object, *args: object, **kwargs: object) -> mtf.Tensor:
        tensors = [x for x in (x1, x2) if isinstance(x, mtf.Tensor)]
        if not tensors:
            raise ShapeError(f"mtf.{name}: neither {x1!r} nor {x2!r} is an mtf.Tensor")
        if len({x.dtype for x in tensors}) > 1:
            first, second = tensors
            raise ShapeError(
                f"mtf.{name}: {describe(first)} has dtype {first.dtype.name}, but {describe(second)} has dtype "
                f"{second.dtype.name}. Fix: convert one of them with mtf.cast."
            )
        if name == "divide" and tensors[0].dtype.is_integer:
            raise ShapeError(
                f"mtf.divide: {describe(tensors[0])} has dtype {tensors[0].dtype.name}, which cannot represent a "
                "quotient. Fix: use mtf.floordiv, or convert the tensor with mtf.cast(x, tf.float32)."
            )
        x1, x2 = [x if isinstance(x, mtf.Tensor) else operand(x, tensors[0], name) for x in (x1, x2)]
        return function(x1, x2, *args, **kwargs)

    return call


def _constant(mesh: mtf.Mesh, value: Any, shape: Any = None, dtype: tf.DType = tf.float32) -> mtf.Tensor:
    """Imports an array with a shape, which mesh_tensorflow would copy to every slice."""
    if not np.ndim(value):
        return _number(mesh, value, shape, dtype)
    wanted = mtf.Shape([]) if shape is None else mtf.convert_to_shape(shape)
    if list(np.shape(value)) != wanted.to_integer_list:
        raise ShapeError(
            f"mtf.constant: the value is an array of shape {list(np.shape(value))}, but the constant has the shape "
            f"{wanted}. Fix: give a shape with a dimension for each axis, or a number, which is repeated."
        )
    return mtf.import_tf_tensor(mesh, tf.constant(value, dtype), wanted)


def apply() -> None:
    """Replaces mesh_tensorflow's binary functions."""
    for function in _BINARY:
        replace_function(function, checked(function))
    replace_function(mtf.constant, _constant)
