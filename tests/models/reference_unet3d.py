"""A reference for `UNet3D` in plain TensorFlow, written from the description of the network."""

import functools
import itertools

import tensorflow as tf


def max_pool(x, sizes=(2, 2, 2)):
    """Computes a max pool with SAME padding. TensorFlow has no float64 `max_pool3d` on the CPU."""
    pads = [[0, -size % pool] for size, pool in zip(x.shape[1:4], sizes, strict=True)]
    x = tf.pad(x, [[0, 0], *pads, [0, 0]], constant_values=x.dtype.min)
    p, q, r = sizes
    windows = [x[:, i::p, j::q, k::r] for i, j, k in itertools.product(*map(range, sizes))]
    return functools.reduce(tf.maximum, windows)


def normalize(x, scale, offset, norm, groups):
    """Normalizes by the statistics of the batch, or of groups of channels of each case."""
    shape = x.shape
    if norm == "batch":
        mean, variance = tf.nn.moments(x, [0, 1, 2, 3])
    else:
        groups = groups if norm == "group" else shape[-1]
        x = tf.reshape(x, [*shape[:-1], groups, shape[-1] // groups])
        mean, variance = tf.nn.moments(x, [1, 2, 3, 5], keepdims=True)
    return tf.reshape((x - mean) / tf.sqrt(variance + 1e-6), shape) * scale + offset


def logits(image, weights, depth, norm="batch", groups=None, pools=None, residual=False):
    """Computes the logits of a U-Net with 2 convolutions in each block.

    Args:
      image: [batch, x, y, z, channels]
      weights: {name of the program's variable: tensor}
      depth: number of resolutions.
      norm: "batch" (by the statistics of the batch), "instance", "group" or "none".
      groups: number of groups of the group norm.
      pools: sizes of the pools along x, y and z, for each pool; None for 2 along each axis.
      residual: whether the encoder has residual blocks.
    """
    pools = pools or [(2, 2, 2)] * (depth - 1)

    def conv(x, name):
        y = tf.nn.conv3d(x, weights[f"unet3d/{name}/filter"], [1] * 5, "SAME")
        return y + weights[f"unet3d/{name}/bias"] if f"unet3d/{name}/bias" in weights else y

    def conv_and_norm(x, conv_name, norm_name):
        x = conv(x, conv_name)
        if norm == "none":
            return x
        return normalize(x, *[weights[f"unet3d/{norm_name}/{key}"] for key in ("scale", "offset")], norm, groups)

    def block(x, name, residual=False):
        shortcut = 0
        if residual:
            is_wider = f"unet3d/{name}/shortcut/filter" in weights
            shortcut = conv_and_norm(x, f"{name}/shortcut", f"{name}/shortcut_norm") if is_wider else x
        x = tf.nn.leaky_relu(conv_and_norm(x, f"{name}/conv0", f"{name}/norm0"), 0.1)
        return tf.nn.leaky_relu(conv_and_norm(x, f"{name}/conv1", f"{name}/norm1") + shortcut, 0.1)

    x, skips = block(image, "down0", residual), []
    for level in range(1, depth):
        skips.append(x)
        x = block(max_pool(x, pools[level - 1]), f"down{level}", residual)
    for level in reversed(range(depth - 1)):
        skip, kernel = skips.pop(), weights[f"unet3d/grow{level}/filter"]
        x = tf.nn.conv3d_transpose(x, kernel, [*skip.shape[:4], kernel.shape[3]], [1, *pools[level], 1])
        x += weights[f"unet3d/grow{level}/bias"]
        x = block(tf.concat([x, skip], -1), f"up{level}")
    return conv(x, "classes")


def loss(logits, labels):
    """Returns 0.8 weighted cross entropy + 0.2 Dice loss of the lesion, and the soft Dice of liver and lesion."""
    weights = tf.gather(tf.constant([1.0, 8.0, 16.0], logits.dtype), labels)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    probability = tf.nn.softmax(logits)
    one_hot = tf.one_hot(labels, 3, dtype=logits.dtype)

    def dice(p, t, axes, epsilon):
        overlap, total = tf.reduce_sum(p * t, axes), tf.reduce_sum(p, axes) + tf.reduce_sum(t, axes)
        return tf.reduce_mean((2 * overlap + epsilon) / (total + epsilon))

    lesion = probability[..., 2], one_hot[..., 2]
    liver = probability[..., 1] + lesion[0], one_hot[..., 1] + lesion[1]
    dice_loss = 1 - (dice(*lesion, [1, 2, 3], 0.1) + dice(*lesion, None, 0.1)) / 2
    value = 0.8 * tf.reduce_mean(weights * cross_entropy) + 0.2 * dice_loss
    return value, dice(*liver, None, 1e-6), dice(*lesion, None, 1e-6)
