"""Softmax, and batch norm as one node."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.norm.normalization import Normalize, Sharing
from mtf_imaging.networks.array import Array
from mtf_imaging.networks.operations.registry import Call, operation, spatial_axes
from mtf_imaging.networks.values import Value, elementwise, named, reshaped, transposed

_JOINED = "joined"  # a name that no layout rule mentions, because a softmax needs all channels at once


@operation("Softmax", ours="mi.ops.softmax")
def _softmax(call: Call, x: Array) -> Array:
    del call
    last = x.axes[-1]
    size = math.prod(dim.size for dim in last)
    y = x.with_axes([*x.axes[:-1], (mtf.Dimension(_JOINED, size),)])
    y = Array(ops.softmax(y.laid(), y.axes[-1][0]), y.axes)
    return y.with_axes([*x.axes[:-1], last])


@operation("LogSoftmax", ours="mtf.log_softmax")
def _log_softmax(call: Call, x: Array) -> Array:
    del call
    y = x.single(len(x.axes) - 1)
    return Array(mtf.log_softmax(y.tensor, y.axes[-1][0]), y.axes)


@operation("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", ours="mi.ops.batch_norm", is_pure=False)
def _batch_norm(call: Call, x: Array, scale: Value, offset: Value, mean: Value, variance: Value) -> tuple[Any, ...]:
    """Returns the result, the moving mean, the moving variance, and outputs that only TensorFlow's gradient needs."""
    spatial, at = spatial_axes(call, len(x.sizes))
    epsilon, factor = call.get("epsilon"), call.get("exponential_avg_factor", 1.0)
    if call.get("is_training"):
        order = [0, *spatial, at]
        image = transposed(x, order).single(len(order) - 1, name="channels")  # type: ignore[union-attr]
        channels = image.axes[-1]
        gamma, beta = (named(call.mesh, value, [channels]).tensor for value in (scale, offset))
        outputs = Normalize("batch_norm", image.laid(), gamma, beta, Sharing(), epsilon, call.node.name).outputs
        count = math.prod(x.sizes) // x.sizes[at]
        axes = [image.axes[0], *image.axes[1:]]
        y = transposed(Array(outputs[0], axes), [int(i) for i in np.argsort(order)])
        new: list[Value] = [Array(outputs[1], [channels]), Array(outputs[2] * (count / max(count - 1, 1)), [channels])]
        if factor != 1:
            new = [
                elementwise(lambda old, new: old * (1 - factor) + new * factor, old, value)
                for old, value in zip((mean, variance), new)
            ]
        return (y, *new, mean, variance, np.zeros(0, np.float32))

    def wide(value: Value) -> Value:
        sizes = [n if i == at else 1 for i, n in enumerate(x.sizes)]
        return value.reshape(sizes) if isinstance(value, np.ndarray) else reshaped(value, sizes)

    def both(function: Any, a: Value, b: Value) -> Value:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return np.asarray(function(a, b))
        return elementwise(function, a, b)

    def inverse(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return 1 / np.sqrt(value + epsilon)
        return elementwise(lambda v: mtf.cwise(lambda v: tf.math.rsqrt(v + epsilon), [v]), value)

    slope = both(lambda a, b: a * b, inverse(variance), scale)
    shift = both(lambda a, b: a - b, offset, both(lambda a, b: a * b, mean, slope))
    y = elementwise(mtf.add, elementwise(mtf.multiply, x, wide(slope)), wide(shift))
    return (y, mean, variance, mean, variance, np.zeros(0, np.float32))
