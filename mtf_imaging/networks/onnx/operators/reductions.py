"""Reductions over axes."""

import functools
from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.networks.onnx.registry import OPERATORS, Call, Value, operator

_REDUCTIONS: dict[str, Callable[..., tf.Tensor]] = {
    "ReduceL1": lambda x, axes, keep: tf.reduce_sum(tf.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: tf.sqrt(tf.reduce_sum(tf.square(x), axes, keep)),
    "ReduceLogSum": lambda x, axes, keep: tf.math.log(tf.reduce_sum(x, axes, keep)),
    "ReduceLogSumExp": tf.reduce_logsumexp,
    "ReduceMax": tf.reduce_max,
    "ReduceMean": tf.reduce_mean,
    "ReduceMin": tf.reduce_min,
    "ReduceProd": tf.reduce_prod,
    "ReduceSum": tf.reduce_sum,
    "ReduceSumSquare": lambda x, axes, keep: tf.reduce_sum(tf.square(x), axes, keep),
}


def _reduced(function: Callable[..., tf.Tensor], call: Call, x: Value, axes: Value | None = None) -> tf.Tensor:
    whole = [] if call.get("noop_with_empty_axes", 0) else range(len(x.shape))
    return function(x, call.axes(axes, whole), bool(call.get("keepdims", 1)))


OPERATORS.update({name: functools.partial(_reduced, function) for name, function in _REDUCTIONS.items()})


def _pooled(function: Callable[..., tf.Tensor], call: Call, x: Value) -> tf.Tensor:
    return function(x, range(2, len(x.shape)), keepdims=True)


OPERATORS["GlobalAveragePool"] = functools.partial(_pooled, tf.reduce_mean)
OPERATORS["GlobalMaxPool"] = functools.partial(_pooled, tf.reduce_max)


@operator("ArgMax", "ArgMin")
def _argmax(call: Call, x: Value) -> tf.Tensor:
    axis, is_last = call.get("axis", 0) % len(x.shape), bool(call.get("select_last_index", 0))
    x = -x if call.node.operator == "ArgMin" else x
    y = tf.argmax(tf.reverse(x, [axis]) if is_last else x, axis)
    y = x.shape[axis] - 1 - y if is_last else y
    return tf.expand_dims(y, axis) if call.get("keepdims", 1) else y


@operator("LpNormalization")
def _lp_normalization(call: Call, x: Value) -> tf.Tensor:
    return x / _REDUCTIONS[f"ReduceL{call.get('p', 2)}"](x, call.get("axis", -1), True)
