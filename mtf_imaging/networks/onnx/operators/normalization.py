"""Norms."""

from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.networks.onnx.registry import Call, Value, channels_first, channels_last, of_channels, operator, sizes


@operator("BatchNormalization")
def _batch_norm(call: Call, x: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> tf.Tensor:
    epsilon = call.get("epsilon", 1e-5)
    if not (call.training or call.get("training_mode", 0)):
        slope = tf.math.rsqrt(variance + epsilon) * scale
        return x * of_channels(slope, len(x.shape)) + of_channels(offset - mean * slope, len(x.shape))
    # The moving variance is updated with the unbiased variance of the batch, as in PyTorch and Keras.
    share, image = 1 - call.get("momentum", 0.9), channels_last(x)
    center, spread = tf.nn.moments(image, [*range(len(x.shape) - 1)])
    count = image.shape.num_elements() // image.shape[-1]
    outputs = [
        tf.nn.batch_normalization(image, center, spread, offset, scale, epsilon),
        mean * (1 - share) + center * share,
        variance * (1 - share) + spread * (share * count / max(count - 1, 1)),
    ]
    y, *moving = call.fused(
        "FusedBatchNormV3", [image, scale, offset, mean, variance], outputs,
        epsilon=epsilon, is_training=True, exponential_avg_factor=share,
    )  # fmt: skip
    call.updates.extend(zip([mean, variance], moving))
    return channels_first(y)


@operator("InstanceNormalization")
def _instance_norm(call: Call, x: Value, scale: Value, offset: Value) -> tf.Tensor:
    return _per_case(call, x, scale, offset, 1)


@operator("GroupNormalization")
def _group_norm(call: Call, x: Value, scale: Value, offset: Value) -> tf.Tensor:
    groups, channels = call.get("num_groups"), sizes(x)[1]
    if sizes(scale)[0] != channels:  # before opset 21, one value for each group
        scale, offset = (
            tf.reshape(tf.tile(tf.reshape(v, [groups, 1]), [1, channels // groups]), [channels])
            for v in (scale, offset)
        )
    return _per_case(call, x, scale, offset, channels // groups)


def _per_case(call: Call, x: Value, scale: Value, offset: Value, group: int) -> tf.Tensor:
    """Normalizes groups of channels over the volume of each case."""
    epsilon, image = call.get("epsilon", 1e-5), channels_last(x)
    case, *volume, channels = sizes(image)
    grouped = tf.reshape(image, [case, *volume, channels // group, group])
    mean, variance = tf.nn.moments(grouped, [*range(1, 1 + len(volume)), len(volume) + 2], keepdims=True)
    normal = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + epsilon), sizes(image))
    (y,) = call.fused(
        "NormalizedCases", [image, scale, offset], [normal * scale + offset], group=group, epsilon=epsilon
    )
    return channels_first(y)


@operator("LayerNormalization")
def _layer_norm(call: Call, x: Value, scale: Value, offset: Value | None = None) -> Sequence[tf.Tensor]:
    axis = call.get("axis", -1) % len(x.shape)
    mean, variance = tf.nn.moments(x, [*range(axis, len(x.shape))], keepdims=True)
    inverse = tf.math.rsqrt(variance + call.get("epsilon", 1e-5))
    y = (x - mean) * inverse * scale
    y = y if offset is None else y + offset
    if axis == len(x.shape) - 1 and offset is not None:
        (y,) = call.fused("NormalizedChannels", [x, scale, offset], [y], epsilon=call.get("epsilon", 1e-5))
    return [y, mean, inverse]


@operator("MeanVarianceNormalization")
def _mean_variance(call: Call, x: Value) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, call.get("axes", [0, 2, 3]), keepdims=True)
    return (x - mean) / (tf.sqrt(variance) + 1e-9)
