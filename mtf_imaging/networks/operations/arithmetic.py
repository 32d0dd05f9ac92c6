"""Elementwise operations. Every dimension may be split."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array
from mtf_imaging.networks.operations.registry import Call, operation, raw, spatial_axes
from mtf_imaging.networks.values import Unnamed, Value, elementwise, reshaped, sizes_of

# {operation: the function of mesh_tensorflow}
_SAME = {
    **{"Add": "add", "AddV2": "add", "Sub": "sub", "Mul": "multiply", "RealDiv": "divide", "Div": "divide"},
    **{"Maximum": "maximum", "Minimum": "minimum", "FloorDiv": "floordiv", "FloorMod": "mod", "Sigmoid": "sigmoid"},
    **{"Equal": "equal", "NotEqual": "not_equal", "Greater": "greater", "GreaterEqual": "greater_equal"},
    **{"Less": "less", "LessEqual": "less_equal", "LogicalAnd": "logical_and", "LogicalOr": "logical_or"},
    **{"LogicalNot": "logical_not", "StopGradient": "stop_gradient", "Tanh": "tanh"},
}
# {operation: (function of Tensors, its name here)}
_OURS: dict[str, tuple[Callable[..., mtf.Tensor], str]] = {
    "Relu": (ops.relu, "mi.ops.relu"),
    "Neg": (lambda x: x * -1, "x * -1"),
    "Square": (lambda x: x * x, "x * x"),
    "SquaredDifference": (lambda a, b: mtf.square(a - b), "mtf.square"),
    "AddN": (lambda *values: functools.reduce(mtf.add, values), "mtf.add"),
}
# Operations of TensorFlow on each slice, with their own gradients.
_SLICEWISE = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Erfc", "Exp"),
    *("Expm1", "Floor", "Log", "Log1p", "Reciprocal", "Relu6", "Rint", "Round", "Rsqrt", "Selu", "Sign", "Sin"),
    *("Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Atan2", "DivNoNan", "MulNoNan", "Pow", "TruncateDiv", "Xdivy"),
    *("Xlogy",),
)
_TESTS = ("IsFinite", "IsInf", "IsNan")


def _slicewise(function: Callable[..., tf.Tensor], *operands: Any, dtype: tf.DType | None = None) -> mtf.Tensor:
    """Applies a TensorFlow function to slices of tensors and numbers, which are broadcast to one shape."""
    tensors = [x for x in operands if isinstance(x, mtf.Tensor)]
    dims = list(dict.fromkeys(dim for x in tensors for dim in x.shape.dims))
    full = [x if x.shape.dims == dims else mtf.broadcast(x, mtf.Shape(dims)) for x in tensors]

    def local(*slices: tf.Tensor) -> tf.Tensor:
        given = iter(slices)
        return function(*[next(given) if isinstance(x, mtf.Tensor) else x for x in operands])

    return mtf.cwise(local, full, output_dtype=dtype)


def _elementwise(function: Callable[..., mtf.Tensor], call: Call, *inputs: Value) -> Value:
    return elementwise(function, *inputs)


_OURS |= {name: (getattr(mtf, own), f"mtf.{own}") for name, own in _SAME.items()}
for _name in [*_SLICEWISE, *_TESTS]:
    _dtype = tf.bool if _name in _TESTS else None
    _OURS[_name] = functools.partial(_slicewise, functools.partial(raw, _name), dtype=_dtype), "mtf.cwise"
for _name, (_function, _ours) in _OURS.items():
    operation(_name, ours=_ours)(functools.partial(_elementwise, _function))


@operation(
    "Identity", "PlaceholderWithDefault", "PreventGradient", "CheckNumerics", "Snapshot", "EnsureShape", ours="x"
)
def _identity(call: Call, x: Value) -> Value:
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
    return elementwise(mtf.add, x, reshaped(bias, sizes))
