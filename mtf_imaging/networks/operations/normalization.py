"""Softmax, and batch norm as one node."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.norm.normalization import Normalize, Sharing
from mtf_imaging.networks.array import Array
from mtf_imaging.networks.graph import BATCH_NORM
from mtf_imaging.networks.operations.registry import Call, operation, spatial_axes
from mtf_imaging.networks.values import Unnamed, Value, as_array, elementwise, named, reshaped, transposed

_JOINED = "joined"  # a name that no layout rule mentions, because a softmax needs all channels at once


@operation("Softmax", ours="mi.ops.softmax")
def _softmax(call: Call, x: Array) -> Array:
    last = x.axes[-1]
    size = math.prod(dim.size for dim in last)
    y = x.with_axes([*x.axes[:-1], (mtf.Dimension(_JOINED, size),)])
    y = Array(ops.softmax(y.laid(), y.axes[-1][0]), y.axes)
    return y.with_axes([*x.axes[:-1], last])


@operation("LogSoftmax", ours="mtf.log_softmax")
def _log_softmax(call: Call, x: Array) -> Array:
    y = x.single(len(x.axes) - 1)
    return Array(mtf.log_softmax(y.tensor, y.axes[-1][0]), y.axes)


def _normalized(
    call: Call, x: Array, scale: Value, offset: Value, channels: int
) -> tuple[Array | Unnamed, Array, Array]:
    """Returns a batch norm by the statistics of the batch, the mean and the (biased) variance.

    Args:
      call: the node.
      x: the input.
      scale, offset: a number for each channel.
      channels: the axis of the channels.
    """
    rank = len(x.sizes)
    order = [*(i for i in range(rank) if i != channels), channels]
    image = as_array(transposed(x, order)).single(rank - 1, name="channels")
    last = image.axes[-1]
    gamma, beta = (named(call.mesh, value, [last]).tensor for value in (scale, offset))
    norm = Normalize("batch_norm", image.laid(), gamma, beta, Sharing(), call.get("epsilon"), call.node.name)
    y, mean, variance = norm.outputs
    whole = transposed(Array(y, image.axes), [int(i) for i in np.argsort(order)])
    return whole, Array(mean, [last]), Array(variance, [last])


@operation(BATCH_NORM, ours="mi.ops.batch_norm", is_pure=False)
def _batch_norm_in_training(call: Call, x: Array, offset: Value, scale: Value | None = None) -> tuple[Any, ...]:
    if scale is None:
        scale = np.ones(x.sizes[-1], x.dtype.as_numpy_dtype)
    return _normalized(call, x, scale, offset, len(x.sizes) - 1)


@operation("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", ours="mi.ops.batch_norm", is_pure=False)
def _batch_norm(call: Call, x: Array, scale: Value, offset: Value, mean: Value, variance: Value) -> tuple[Any, ...]:
    """Returns the result, the moving mean, the moving variance, and outputs that only TensorFlow's gradient needs."""
    _, at = spatial_axes(call, len(x.sizes))
    epsilon, factor = call.get("epsilon"), call.get("exponential_avg_factor", 1.0)
    if call.get("is_training"):
        y, batch_mean, batch_variance = _normalized(call, x, scale, offset, at)
        count = math.prod(x.sizes) // x.sizes[at]
        unbiased = Array(batch_variance.tensor * (count / max(count - 1, 1)), batch_variance.axes)
        new: list[Value] = [batch_mean, unbiased]
        if factor != 1:
            new = [
                elementwise(lambda old, new: old * (1 - factor) + new * factor, old, value)
                for old, value in zip((mean, variance), new, strict=True)
            ]
        return (y, *new, mean, variance, np.zeros(0, np.float32))

    def normalized(x: mtf.Tensor, *vectors: mtf.Tensor | float) -> mtf.Tensor:
        scale, offset, mean, variance = vectors
        shifted = variance + epsilon
        inverse = mtf.cwise(tf.math.rsqrt, [shifted]) if isinstance(shifted, mtf.Tensor) else shifted**-0.5
        slope = inverse * scale
        return x * slope + (offset - mean * slope)

    wide = [n if i == at else 1 for i, n in enumerate(x.sizes)]
    y = elementwise(normalized, x, *(reshaped(value, wide) for value in (scale, offset, mean, variance)))
    return (y, mean, variance, mean, variance, np.zeros(0, np.float32))
