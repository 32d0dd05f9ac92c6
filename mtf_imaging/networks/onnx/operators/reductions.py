"""Reductions over axes."""

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


def _register() -> None:
    def reduction(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        def reduced(call: Call, x: Value, axes: Value | None = None) -> tf.Tensor:
            whole = [] if call.get("noop_with_empty_axes", 0) else range(len(x.shape))
            return function(x, call.axes(axes, whole), bool(call.get("keepdims", 1)))

        return reduced

    OPERATORS.update({name: reduction(function) for name, function in _REDUCTIONS.items()})


_register()


@operator("ArgMax", "ArgMin")
def _argmax(call: Call, x: Value) -> tf.Tensor:
    axis, is_last = call.get("axis", 0) % len(x.shape), bool(call.get("select_last_index", 0))
    x = -x if call.node.operator == "ArgMin" else x
    y = tf.argmax(tf.reverse(x, [axis]) if is_last else x, axis)
    y = x.shape[axis] - 1 - y if is_last else y
    return tf.expand_dims(y, axis) if call.get("keepdims", 1) else y


@operator("GlobalAveragePool")
def _global_average(call: Call, x: Value) -> tf.Tensor:
    return tf.reduce_mean(x, range(2, len(x.shape)), keepdims=True)


@operator("GlobalMaxPool")
def _global_max(call: Call, x: Value) -> tf.Tensor:
    return tf.reduce_max(x, range(2, len(x.shape)), keepdims=True)


@operator("LpNormalization")
def _lp_normalization(call: Call, x: Value) -> tf.Tensor:
    axis = call.get("axis", -1)
    if call.get("p", 2) == 1:
        return x / tf.reduce_sum(tf.abs(x), axis, keepdims=True)
    return x / tf.sqrt(tf.reduce_sum(tf.square(x), axis, keepdims=True))
