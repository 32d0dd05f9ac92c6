"""Operators that move channels to blocks of voxels, and back."""

import math

import numpy as np
import tensorflow as tf

from mtf_imaging.networks.onnx.registry import Call, Value, channels_first, channels_last, operator, sizes


@operator("DepthToSpace")
def _depth_to_space(call: Call, x: Value) -> tf.Tensor:
    block, channels = call.get("blocksize"), sizes(x)[1]
    if call.get("mode", "DCR") == "CRD":
        order = np.arange(channels).reshape(-1, block * block).T
        x = tf.gather(x, order.ravel(), axis=1)
    return channels_first(tf.nn.depth_to_space(channels_last(x), block))


@operator("SpaceToDepth")
def _space_to_depth(call: Call, x: Value) -> tf.Tensor:
    return channels_first(tf.nn.space_to_depth(channels_last(x), call.get("blocksize")))


def shuffled(call: Call, y: tf.Tensor) -> tf.Tensor:
    """Returns the result of a reshape as that of one operation, if it ends a pixel shuffle.

    Exporters write a pixel shuffle of volumes as three nodes. The first one divides the channels into `[channels,
    block...]`, in any order. The second one transposes to `[batch, channels, x, block, y, block...]`, and the third one
    merges each spatial axis with its block.
    """
    permuted = y.op.inputs[0]
    if permuted.op.type != "Transpose" or permuted.op.inputs[0].op.type != "Reshape":
        return y
    parts = permuted.op.inputs[0]
    x, order = parts.op.inputs[0], [int(i) for i in tf.get_static_value(permuted.op.inputs[1])]
    rank, cut, made = len(x.shape), sizes(parts), sizes(permuted)
    n = rank - 2
    spatial, blocks = order[2::2], order[3::2]
    merged = [a * b for a, b in zip(made[2::2], made[3::2], strict=False)]
    if (
        n < 1
        or len(order) != 2 * n + 2
        or order[0] != 0
        or spatial != list(range(n + 2, 2 * n + 2))
        or [cut[0], math.prod(cut[1 : n + 2]), *cut[n + 2 :]] != sizes(x)
        or [*made[:2], *merged] != sizes(y)
    ):
        return y
    channels = np.arange(sizes(x)[1]).reshape(cut[1 : n + 2])
    channels = channels.transpose([*(i - 1 for i in blocks), order[1] - 1]).ravel()
    image = channels_last(tf.gather(x, channels, axis=1))
    (image,) = call.fused("BlocksOfChannels", [image], [channels_last(y)], blocks=[cut[i] for i in blocks])
    return channels_first(image)
