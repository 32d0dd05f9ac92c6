"""A reference for `UNet3D` in plain TensorFlow, written from the description of the network."""

import functools
import itertools

import tensorflow as tf


def max_pool(x):
    """Computes a max pool of 2^3 voxels with SAME padding. TensorFlow has no float64 `max_pool3d` on the CPU."""
    x = tf.pad(x, [[0, 0], *[[0, size % 2] for size in x.shape[1:4]], [0, 0]], constant_values=x.dtype.min)
    windows = [x[:, i::2, j::2, k::2] for i, j, k in itertools.product((0, 1), repeat=3)]
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


def logits(image, weights, depth, norm="batch", groups=None):
    """Computes the logits of a U-Net with 2 convolutions in each block.

    Args:
      image: [batch, x, y, z, channels]
      weights: {name of the program's variable: tensor}
      depth: number of resolutions.
      norm: "batch" (by the statistics of the batch), "instance", "group" or "none".
      groups: number of groups of the group norm.
    """

    def conv(x, name):
        y = tf.nn.conv3d(x, weights[f"unet3d/{name}/filter"], [1] * 5, "SAME")
        return y + weights[f"unet3d/{name}/bias"] if f"unet3d/{name}/bias" in weights else y

    def block(x, name):
        for i in range(2):
            x = conv(x, f"{name}/conv{i}")
            if norm != "none":
                parameters = [weights[f"unet3d/{name}/norm{i}/{key}"] for key in ("scale", "offset")]
                x = normalize(x, *parameters, norm, groups)
            x = tf.nn.leaky_relu(x, 0.1)
        return x

    x, skips = block(image, "down0"), []
    for level in range(1, depth):
        skips.append(x)
        x = block(max_pool(x), f"down{level}")
    for level in reversed(range(depth - 1)):
        skip, kernel = skips.pop(), weights[f"unet3d/grow{level}/filter"]
        x = tf.nn.conv3d_transpose(x, kernel, [*skip.shape[:4], kernel.shape[3]], [1, 2, 2, 2, 1])
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
