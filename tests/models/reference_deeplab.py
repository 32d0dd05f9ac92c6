"""A reference for `DeepLab` in plain TensorFlow, written from the description of the network.

A dilated convolution is a sum over its taps, so the reference shares no kernel with the network.
"""

import tensorflow as tf


def dilated(x, kernel, rate, multiply):
    """Sums `multiply(x shifted by a tap, kernel of the tap)` over the 9 taps, with zeros beyond the border."""
    height, width = x.shape[1:3]
    padded = tf.pad(x, [[0, 0], [rate, rate], [rate, rate], [0, 0]])
    taps = [
        multiply(padded[:, i * rate : i * rate + height, j * rate : j * rate + width], kernel[i, j])
        for i in range(3)
        for j in range(3)
    ]
    return tf.add_n(taps)


def resized(x, like):
    """Resizes with aligned corners, as a product with a matrix per dimension.

    `tf.compat.v1.image.resize` computes float32, so a test compares it with this function once.
    """
    for axis in (1, 2):
        size, outputs = x.shape[axis], like.shape[axis]
        centers = tf.range(outputs, dtype=x.dtype) * ((size - 1) / max(outputs - 1, 1))
        distance = tf.abs(centers[:, None] - tf.range(size, dtype=x.dtype))
        weights = tf.maximum(1 - distance, 0)
        x = tf.einsum("bhwc,oh->bowc" if axis == 1 else "bhwc,ow->bhoc", x, weights)
    return x


class Reference:
    """DeepLab with the weights of a program.

    Args:
      weights: {name of the program's variable: tensor}
      network: a `DeepLab`, of which only the settings are read.
      is_training: whether norms use the statistics of the batch.

    Attributes:
      moving: {name: moving statistics after the call}, in training.
    """

    def __init__(self, weights, network, is_training):
        self.weights, self.is_training = weights, is_training
        self.rates, self.separable, self.decoder_convs = network.rates, network.separable, network.decoder_convs
        self.momentum = network.norm_momentum
        self.moving = {}

    def norm_relu(self, x, name):
        scale, offset, mean, variance = (
            self.weights[f"{name}_norm/{key}"] for key in ("scale", "offset", "moving_mean", "moving_variance")
        )
        if self.is_training:
            now = tf.nn.moments(x, [0, 1, 2])
            for key, old, new in zip(("moving_mean", "moving_variance"), (mean, variance), now):
                self.moving[f"{name}_norm/{key}"] = self.momentum * old + (1 - self.momentum) * new
            mean, variance = now
        return tf.nn.relu((x - mean) / tf.sqrt(variance + 1e-5) * scale + offset)

    def pointwise(self, x, name):
        return self.norm_relu(tf.nn.conv2d(x, self.weights[f"{name}/filter"], 1, "SAME"), name)

    def spatial(self, x, name, rate=1):
        if not self.separable:
            return self.norm_relu(dilated(x, self.weights[f"{name}/filter"], rate, tf.matmul), name)
        kernel = self.weights[f"{name}/depthwise/filter"]
        x = self.norm_relu(dilated(x, kernel, rate, tf.multiply), f"{name}/depthwise")
        return self.pointwise(x, f"{name}/pointwise")

    def logits(self, image, low_level, deep):
        """Computes the logits, without dropout, from the features of a backbone."""
        mean = self.pointwise(tf.reduce_mean(deep, [1, 2], keepdims=True), "deeplab/aspp/aspp_mean")
        maps = [
            tf.broadcast_to(mean, [*deep.shape[:3], mean.shape[-1]]),
            self.pointwise(deep, "deeplab/aspp/aspp0"),
            *(self.spatial(deep, f"deeplab/aspp/aspp{i}", rate) for i, rate in enumerate(self.rates, 1)),
        ]
        x = self.pointwise(tf.concat(maps, -1), "deeplab/aspp/aspp_join")
        low_level = self.pointwise(low_level, "deeplab/decoder/low_level")
        x = tf.concat([resized(x, low_level), low_level], -1)
        for i in range(self.decoder_convs):
            x = self.spatial(x, f"deeplab/decoder/decoder{i}")
        x = tf.nn.conv2d(x, self.weights["deeplab/classes/filter"], 1, "SAME") + self.weights["deeplab/classes/bias"]
        return resized(x, image)


def loss(logits, labels, ignore_label):
    """Returns the mean cross entropy and the accuracy over the pixels that count, or 0 if there are none."""
    valid = labels != ignore_label
    logits, labels = logits[valid], labels[valid]
    if not len(labels):
        return tf.reduce_sum(logits), tf.zeros([], logits.dtype)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    correct = tf.cast(tf.argmax(logits, -1, tf.int32) == labels, logits.dtype)
    return tf.reduce_mean(cross_entropy), tf.reduce_mean(correct)
