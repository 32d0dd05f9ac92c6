"""The operators of `mtf.Tensor`, and errors about uses of a tensor that need its values while the graph is built."""

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf, refuse_in_tensorflow
from mtf_imaging.engine.upstream.operands import describe, operand
from mtf_imaging.errors import NotSupportedError, ShapeError

# NumPy calls these functions for an operator between a NumPy array or number and another object.
_UFUNCS: dict[np.ufunc, Callable[..., mtf.Tensor]] = {
    np.add: mtf.Tensor.__radd__,
    np.subtract: mtf.Tensor.__rsub__,
    np.multiply: mtf.Tensor.__rmul__,
    np.divide: mtf.Tensor.__rtruediv__,
    np.floor_divide: mtf.Tensor.__rfloordiv__,
    np.remainder: mtf.Tensor.__rmod__,
    np.power: lambda x, other: _power(other, x),
    np.less: lambda x, other: mtf.less(other, x),
    np.less_equal: lambda x, other: mtf.less_equal(other, x),
    np.greater: lambda x, other: mtf.greater(other, x),
    np.greater_equal: lambda x, other: mtf.greater_equal(other, x),
}

# The mtf functions for NumPy's reductions: np.sum calls np.add.reduce.
_REDUCTIONS: dict[np.ufunc, str] = {
    np.add: "reduce_sum",
    np.maximum: "reduce_max",
    np.minimum: "reduce_min",
    np.logical_and: "reduce_all",
    np.logical_or: "reduce_any",
}


def _instead_of(function: str) -> str:
    """Returns the fix for a call to a TensorFlow or NumPy function."""
    for name, module in (("mi.ops", ops), ("mtf", mtf)):
        if inspect.isfunction(getattr(module, function, None)):
            return f"use {name}.{function}"
    return "use a function of mtf or mi.ops, or mtf.cwise, which calls an elementwise function of TensorFlow"


def _refuse_in_tensorflow(function: str, tensor: mtf.Tensor) -> NoReturn:
    raise NotSupportedError(
        f"TensorFlow's function {function} takes tf.Tensors, but {describe(tensor)} is an mtf.Tensor. "
        f"Fix: {_instead_of(function)}."
    ) from None


def _refused(use: str, fix: str) -> Callable[..., NoReturn]:
    """Returns an `mtf.Tensor` method that raises an error."""

    def method(tensor: mtf.Tensor, *args: object, **kwargs: object) -> NoReturn:
        del args, kwargs
        raise NotSupportedError(f"{describe(tensor)} {use}. Fix: {fix}.")

    return method


def _array_ufunc(tensor: mtf.Tensor, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> mtf.Tensor:
    """Implements operators whose first operand is a NumPy array or number."""
    if ufunc in _UFUNCS and method == "__call__" and inputs[1] is tensor and not kwargs:
        return _UFUNCS[ufunc](tensor, inputs[0])
    function = _REDUCTIONS.get(ufunc, ufunc.__name__) if method == "reduce" else ufunc.__name__
    raise NotSupportedError(
        f"NumPy's function {ufunc.__name__} takes arrays, but {describe(tensor)} is an mtf.Tensor. "
        f"Fix: {_instead_of(function)}."
    )


def _power(x: object, y: object) -> mtf.Tensor:
    """Computes `x ** y` like `tf.pow`, also for negative bases, for which `mtf.pow` returns NaN."""
    if not isinstance(y, mtf.Tensor):
        exponent = operand(y, x, "pow")
        return mtf.cwise(lambda base: tf.pow(base, exponent), [x], name="pow")
    if not isinstance(x, mtf.Tensor):
        base = operand(x, y, "pow")
        return mtf.cwise(lambda exponent: tf.pow(tf.cast(base, exponent.dtype), exponent), [y], name="pow")
    shape = x.shape + [dim for dim in y.shape.dims if dim not in x.shape.dims]
    return mtf.cwise(lambda x, y: tf.pow(x, y), [mtf.broadcast(x, shape), mtf.broadcast(y, shape)], name="pow")


def _logical(function: str) -> Callable[..., mtf.Tensor]:
    """Returns a method of `mtf.Tensor` that calls a logical mtf function."""

    def method(tensor: mtf.Tensor, *others: object) -> mtf.Tensor:
        for each in (tensor, *others):
            if isinstance(each, mtf.Tensor) and not each.dtype.is_bool:
                raise ShapeError(
                    f"mtf.{function}: {describe(each)} has dtype {each.dtype.name}, not bool. "
                    "Fix: compare it with a number, such as x > 0."
                )
        return getattr(mtf, function)(tensor, *others)

    return method


def _truth(tensor: mtf.Tensor) -> bool:
    # Other tensors are true, because mesh_tensorflow uses truth to distinguish a tensor from None.
    if tensor.dtype.is_bool:
        raise NotSupportedError(
            f"the truth of {describe(tensor)} is unknown while the graph is built, so `if`, `while`, `and`, `or` and "
            "`not` cannot use it. Fix: use mtf.where, mtf.while_loop, or the operators & | ~."
        )
    return True


_METHODS: dict[str, Callable[..., Any]] = {
    "__lt__": lambda x, other: mtf.less(x, other),
    "__le__": lambda x, other: mtf.less_equal(x, other),
    "__gt__": lambda x, other: mtf.greater(x, other),
    "__ge__": lambda x, other: mtf.greater_equal(x, other),
    **dict.fromkeys(("__and__", "__rand__"), _logical("logical_and")),
    **dict.fromkeys(("__or__", "__ror__"), _logical("logical_or")),
    "__invert__": _logical("logical_not"),
    "__abs__": lambda x: mtf.abs(x),
    "__pow__": _power,
    "__rpow__": lambda x, other: _power(other, x),
    "__bool__": _truth,
    "__array_ufunc__": _array_ufunc,
    "__matmul__": _refused(
        "has named dimensions, so @ does not know which of them to sum over",
        "use mtf.matmul(a, b, reduced_dims=[dim]) or mtf.einsum",
    ),
    "__getitem__": _refused(
        "has named dimensions, so it has no indices of axes",
        "use mtf.slice(x, begin, size, dim_name), mtf.unstack(x, dim) or mtf.gather(x, indices, dim)",
    ),
    "__iter__": _refused("cannot be iterated over", "use mtf.unstack(x, dim), which returns a list of tensors"),
    "__len__": _refused(
        "has named dimensions, so it has no length",
        'use x.shape.get_dim_by_name("x").size for a dimension "x", or x.size for the number of elements',
    ),
    **dict.fromkeys(
        ("__array__", "__float__", "__int__", "numpy"),
        _refused(
            "has no values while the graph is built, so it cannot be converted to an array or a number",
            "compute with the functions of mtf and mi.ops, and return the tensor from the function of the program",
        ),
    ),
}


def apply() -> None:
    """Adds the methods to `mtf.Tensor`, and errors about its use in TensorFlow's functions."""
    for name, method in _METHODS.items():
        setattr(mtf.Tensor, name, method)
    refuse_in_tensorflow(_refuse_in_tensorflow)
