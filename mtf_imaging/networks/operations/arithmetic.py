"""Elementwise operations. Every dimension may be split."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array
from mtf_imaging.networks.operations.registry import Call, operation, spatial_axes
from mtf_imaging.networks.values import Unnamed, Value, elementwise, reshaped, sizes_of

# {operation: (function of an mtf.Tensor, its name here)}
_UNARY: dict[str, tuple[Callable[[mtf.Tensor], mtf.Tensor], str]] = {
    "Relu": (ops.relu, "mi.ops.relu"),
    "Sigmoid": (mtf.sigmoid, "mtf.sigmoid"),
    "Tanh": (mtf.tanh, "mtf.tanh"),
    "Neg": (lambda x: x * -1, "x * -1"),
    "Square": (lambda x: x * x, "x * x"),
    "StopGradient": (mtf.stop_gradient, "mtf.stop_gradient"),
    "LogicalNot": (mtf.logical_not, "mtf.logical_not"),
}
# TensorFlow functions of each slice, with their own gradients.
_SLICEWISE: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "Abs": tf.abs,
    "Acos": tf.acos,
    "Acosh": tf.acosh,
    "Asin": tf.asin,
    "Asinh": tf.asinh,
    "Atan": tf.atan,
    "Atanh": tf.atanh,
    "Ceil": tf.math.ceil,
    "Cos": tf.cos,
    "Cosh": tf.cosh,
    "Elu": tf.nn.elu,
    "Erf": tf.math.erf,
    "Erfc": tf.math.erfc,
    "Exp": tf.exp,
    "Expm1": tf.math.expm1,
    "Floor": tf.floor,
    "Log": tf.math.log,
    "Log1p": tf.math.log1p,
    "Reciprocal": tf.math.reciprocal,
    "Relu6": tf.nn.relu6,
    "Rint": tf.math.rint,
    "Round": tf.round,
    "Rsqrt": tf.math.rsqrt,
    "Selu": tf.nn.selu,
    "Sign": tf.sign,
    "Sin": tf.sin,
    "Sinh": tf.sinh,
    "Softplus": tf.math.softplus,
    "Softsign": tf.nn.softsign,
    "Sqrt": tf.sqrt,
    "Tan": tf.tan,
}
_TESTS = {"IsFinite": tf.math.is_finite, "IsInf": tf.math.is_inf, "IsNan": tf.math.is_nan}
_BINARY: dict[str, tuple[Callable[..., mtf.Tensor], str]] = {
    "Add": (mtf.add, "mtf.add"),
    "AddV2": (mtf.add, "mtf.add"),
    "Sub": (mtf.sub, "mtf.sub"),
    "Mul": (mtf.multiply, "mtf.multiply"),
    "RealDiv": (mtf.divide, "mtf.divide"),
    "Div": (mtf.divide, "mtf.divide"),
    "Maximum": (mtf.maximum, "mtf.maximum"),
    "Minimum": (mtf.minimum, "mtf.minimum"),
    "SquaredDifference": (lambda a, b: mtf.square(a - b), "mtf.square"),
    "Greater": (mtf.greater, "mtf.greater"),
    "GreaterEqual": (mtf.greater_equal, "mtf.greater_equal"),
    "Less": (mtf.less, "mtf.less"),
    "LessEqual": (mtf.less_equal, "mtf.less_equal"),
    "Equal": (mtf.equal, "mtf.equal"),
    "NotEqual": (mtf.not_equal, "mtf.not_equal"),
    "LogicalAnd": (mtf.logical_and, "mtf.logical_and"),
    "LogicalOr": (mtf.logical_or, "mtf.logical_or"),
    "FloorDiv": (mtf.floordiv, "mtf.floordiv"),
    "FloorMod": (mtf.mod, "mtf.mod"),
}
_SLICEWISE_BINARY = {
    "Atan2": tf.atan2,
    "DivNoNan": tf.math.divide_no_nan,
    "MulNoNan": tf.math.multiply_no_nan,
    "Pow": tf.pow,
    "TruncateDiv": tf.truncatediv,
    "Xdivy": tf.math.xdivy,
    "Xlogy": tf.math.xlogy,
}


def _slicewise(function: Callable[..., tf.Tensor], *operands: Any, dtype: tf.DType | None = None) -> mtf.Tensor:
    """Applies a TensorFlow function to slices of tensors and numbers, which are broadcast to one shape."""
    tensors = [x for x in operands if isinstance(x, mtf.Tensor)]
    dims = list(dict.fromkeys(dim for x in tensors for dim in x.shape.dims))
    full = [x if x.shape.dims == dims else mtf.broadcast(x, mtf.Shape(dims)) for x in tensors]

    def local(*slices: tf.Tensor) -> tf.Tensor:
        given = iter(slices)
        return function(*[next(given) if isinstance(x, mtf.Tensor) else x for x in operands])

    return mtf.cwise(local, full, output_dtype=dtype)


def _register() -> None:
    def unary(function: Callable[[mtf.Tensor], mtf.Tensor]) -> Callable[..., Any]:
        return lambda call, x: elementwise(function, x)

    def binary(function: Callable[..., mtf.Tensor]) -> Callable[..., Any]:
        return lambda call, a, b: elementwise(function, a, b)

    for name, (function, ours) in _UNARY.items():
        operation(name, ours=ours)(unary(function))
    for name, local in _SLICEWISE.items():
        operation(name, ours="mtf.cwise")(unary(functools.partial(_slicewise, local)))
    for name, local in _TESTS.items():
        operation(name, ours="mtf.cwise")(unary(functools.partial(_slicewise, local, dtype=tf.bool)))
    for name, (function, ours) in _BINARY.items():
        operation(name, ours=ours)(binary(function))
    for name, local in _SLICEWISE_BINARY.items():
        operation(name, ours="mtf.cwise")(binary(functools.partial(_slicewise, local)))


_register()


@operation(
    "Identity", "PlaceholderWithDefault", "PreventGradient", "CheckNumerics", "Snapshot", "EnsureShape", ours="x"
)
def _identity(call: Call, x: Value) -> Value:
    del call
    return x


@operation("IdentityN", ours="mi.ops.silu, if it is the end of a SiLU")
def _identities(call: Call, *values: Value) -> tuple[Value, ...]:
    """Returns its inputs; with a gradient of its own, the operation is refused unless it is known."""
    if call.get("_gradient_op_type") is None or _is_silu(call, values):
        return values
    raise call.refuse(
        "has a gradient of its own (tf.custom_gradient), which a graph does not contain",
        "use the function without the custom gradient",
    )


def _is_silu(call: Call, values: tuple[Value, ...]) -> bool:
    """Returns whether the inputs are `x sigmoid(beta x)`, x and beta, whose own gradient equals the usual one."""
    return len(values) == 3 and call.state.ends_silu(call.node)


@operation("LeakyRelu", ours="mi.ops.leaky_relu")
def _leaky_relu(call: Call, x: Value) -> Value:
    slope = call.get("alpha")
    if slope < 0:
        return elementwise(lambda x: _slicewise(lambda x: tf.nn.leaky_relu(x, slope), x), x)
    return elementwise(lambda x: ops.leaky_relu(x, slope), x)


@operation("AddN", ours="mtf.add")
def _add_n(call: Call, *values: Value) -> Value:
    total, *rest = values
    for value in rest:
        total = elementwise(mtf.add, total, value)
    return total


@operation("Cast", ours="mtf.cast")
def _cast(call: Call, x: Value) -> Value:
    dtype = call.get("DstT")
    y = elementwise(lambda x: mtf.cast(x, dtype), x)
    if isinstance(y, Unnamed):
        y.dtype = dtype
    return y


@operation("Select", "SelectV2", ours="mtf.where")
def _select(call: Call, condition: Value, a: Value, b: Value) -> Value:
    if call.node.operation == "Select" and len(sizes_of(condition)) == 1:
        raise call.refuse("selects rows by a vector", "use tf.where with a condition of the same shape")

    def where(condition: Any, a: Any, b: Any) -> mtf.Tensor:
        if not isinstance(condition, mtf.Tensor):
            chosen, other = (a, b) if condition else (b, a)
            return chosen + 0 * other if isinstance(chosen, mtf.Tensor) else other * 0 + chosen
        if not isinstance(a, mtf.Tensor) and not isinstance(b, mtf.Tensor):
            a = mtf.constant(call.mesh, a, mtf.Shape([]), call.get("T"))
        return mtf.where(condition, a, b)

    return elementwise(where, condition, a, b)


@operation("BiasAdd", "BiasAddV1", ours="mi.ops.add_bias")
def _bias_add(call: Call, x: Array, bias: Value) -> Value:
    _, at = spatial_axes(call, len(x.sizes))
    axis = x.axes[at]
    if isinstance(bias, Unnamed) and len(axis) == 1 and x.tensor.shape.dims[-1:] == list(axis):
        return Array(ops.add_bias(x.tensor, bias.named([axis]).tensor), x.axes)
    sizes = [n if i == at else 1 for i, n in enumerate(x.sizes)]
    wide = bias.reshape(sizes) if isinstance(bias, np.ndarray) else reshaped(bias, sizes)
    return elementwise(mtf.add, x, wide)
