"""Arithmetic, comparisons and activations."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.networks.onnx.registry import OPERATORS, Call, Value, operator
from mtf_imaging.networks.operations.registry import raw

# Operators with the same name in TensorFlow, and with another one.
_SAME = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Equal", "Erf", "Exp", "Floor"),
    *("Greater", "Identity", "Less", "Log", "Mul", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin"),
    *("Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Tanh"),
)
_RENAMED = {
    **{"Add": "AddV2", "And": "LogicalAnd", "GreaterOrEqual": "GreaterEqual", "IsNaN": "IsNan", "Xor": "NotEqual"},
    **{"LessOrEqual": "LessEqual", "Not": "LogicalNot", "Or": "LogicalOr", "Where": "SelectV2"},
}
_FOLDED: dict[str, Callable[..., tf.Tensor]] = {"Max": tf.maximum, "Min": tf.minimum, "Sum": tf.add}


def _plain(name: str, call: Call, *inputs: Value) -> tf.Tensor:
    return raw(name, *inputs)


def _folded(function: Callable[..., tf.Tensor], call: Call, *inputs: Value) -> Value:
    return functools.reduce(function, inputs)


OPERATORS |= {name: functools.partial(_plain, own) for name, own in [*zip(_SAME, _SAME), *_RENAMED.items()]}
OPERATORS |= {name: functools.partial(_folded, function) for name, function in _FOLDED.items()}


def _exponential(x: Value, factor: float, width: float, gain: float) -> tf.Tensor:
    """Returns `gain max(x, 0) + gain factor (exp(min(x, 0) / width) - 1)`."""
    below = tf.math.expm1(-tf.nn.relu(-x) / _number(x, width))
    return _number(x, gain) * (tf.nn.relu(x) + _number(x, factor) * below)


def _number(x: Value, number: float) -> Any:
    return np.asarray(number, tf.as_dtype(x.dtype).as_numpy_dtype)


OPERATORS |= {
    "CastLike": lambda call, x, like: tf.cast(x, like.dtype),
    "Celu": lambda call, x: _exponential(x, call.get("alpha", 1.0), call.get("alpha", 1.0), 1.0),
    "Elu": lambda call, x: _exponential(x, call.get("alpha", 1.0), 1.0, 1.0),
    "Gelu": lambda call, x: tf.nn.gelu(x, approximate=call.get("approximate", "none") == "tanh"),
    "HardSigmoid": lambda call, x: tf.clip_by_value(x * call.get("alpha", 0.2) + call.get("beta", 0.5), 0, 1),
    "HardSwish": lambda call, x: x * tf.clip_by_value(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda call, x: tf.nn.leaky_relu(x, call.get("alpha", 0.01)),
    "Mean": lambda call, *inputs: functools.reduce(tf.add, inputs) / len(inputs),
    "Mish": lambda call, x: x * tf.tanh(tf.math.softplus(x)),
    "PRelu": lambda call, x, slope: tf.nn.relu(x) - slope * tf.nn.relu(-x),
    "Selu": lambda call, x: _exponential(x, call.get("alpha", 1.6732632), 1.0, call.get("gamma", 1.050701)),
    "ThresholdedRelu": lambda call, x: tf.where(x > _number(x, call.get("alpha", 1.0)), x, _number(x, 0)),
}


@operator("IsInf")
def _is_inf(call: Call, x: Value) -> tf.Tensor:
    above, below = bool(call.get("detect_positive", 1)), bool(call.get("detect_negative", 1))
    return tf.math.is_inf(x) & (((x > 0) & above) | ((x < 0) & below))


@operator("Div")
def _divide(call: Call, a: Value, b: Value) -> tf.Tensor:
    # Integers are rounded towards 0.
    return tf.divide(a, b) if tf.as_dtype(a.dtype).is_floating else tf.truncatediv(a, b)


@operator("Mod")
def _mod(call: Call, a: Value, b: Value) -> tf.Tensor:
    if call.get("fmod", 0):  # the sign of a
        quotient = tf.divide(a, b)
        return a - b * tf.sign(quotient) * tf.floor(tf.abs(quotient))
    return tf.math.floormod(a, b)


@operator("Pow")
def _pow(call: Call, x: Value, exponent: Value) -> tf.Tensor:
    if isinstance(exponent, np.ndarray) and exponent.size == 1 and exponent.item() == 2:
        return tf.broadcast_to(tf.square(x), np.broadcast_shapes(tuple(x.shape), exponent.shape))
    return tf.pow(x, tf.cast(exponent, x.dtype))


@operator("Clip")
def _clip(call: Call, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    x = x if low is None else tf.maximum(x, low)
    return x if high is None else tf.minimum(x, high)


@operator("Cast")
def _cast(call: Call, x: Value) -> tf.Tensor:
    import onnx

    return tf.cast(x, onnx.helper.tensor_dtype_to_np_dtype(call.get("to")))


@operator("Dropout")
def _dropout(call: Call, x: Value, ratio: Value | None = None, training: Value | None = None) -> Value:
    share = 0.5 if ratio is None else call.numbers(ratio, "ratios").item()
    return tf.nn.dropout(x, share) if call.training else tf.identity(x)


@operator("Shrink")
def _shrink(call: Call, x: Value) -> tf.Tensor:
    limit, bias = call.get("lambd", 0.5), call.get("bias", 0.0)
    above, below = tf.cast(x > limit, x.dtype), tf.cast(x < -limit, x.dtype)
    return above * (x - bias) + below * (x + bias)


@operator("LogSoftmax", "Softmax")
def _softmax(call: Call, x: Value) -> tf.Tensor:
    order = list(range(len(x.shape)))
    axis = call.get("axis", -1) % len(order)
    order[axis], order[-1] = order[-1], axis
    return tf.transpose(raw(call.node.operator, tf.transpose(x, order)), order)
