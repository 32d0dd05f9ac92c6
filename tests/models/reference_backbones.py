"""References for the backbones in plain TensorFlow, written from the published descriptions of the networks.

Every convolution has explicit zeros around the image.
"""

import tensorflow as tf


class Layers:
    """The layers of one call of a network, with weights by name.

    Args:
      weights: {name: tensor}, trained weights and moving statistics.
      is_training: whether norms use the statistics of the batch.
      momentum: fraction of the moving statistics that a call in training keeps.
      epsilon: number that norms add to the variance.
      padding: "fixed" or "same".

    Attributes:
      moving_statistics: {name: tensor} after the call.
    """

    def __init__(self, weights, is_training, momentum, epsilon, padding):
        self.weights, self.is_training, self.momentum = weights, is_training, momentum
        self.epsilon, self.padding = epsilon, padding
        self.moving_statistics = {name: value for name, value in weights.items() if "/moving_" in name}

    def norm(self, x, name):
        scale, offset, mean, variance = (
            self.weights[f"{name}_norm/{key}"] for key in ("scale", "offset", "moving_mean", "moving_variance")
        )
        if self.is_training:
            statistics = tf.nn.moments(x, [0, 1, 2])
            for key, old, new in zip(("moving_mean", "moving_variance"), (mean, variance), statistics):
                self.moving_statistics[f"{name}_norm/{key}"] = self.momentum * old + (1 - self.momentum) * new
            mean, variance = statistics
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, self.epsilon)

    def conv(self, x, name, stride=1, dilation=1):
        """Computes a convolution and its norm."""
        kernel = spread(self.weights[f"{name}/filter"], dilation)
        return self.norm(tf.nn.conv2d(x, kernel, stride, self._pads(x, kernel.shape[0], stride)), name)

    def depthwise(self, x, name, stride=1, dilation=1):
        """Computes a depthwise convolution and its norm. Its kernels are [height, width, 1, channels]."""
        kernel = spread(tf.transpose(self.weights[f"{name}/filter"], [0, 1, 3, 2]), dilation)
        pads = self._pads(x, kernel.shape[0], stride)
        return self.norm(tf.nn.depthwise_conv2d(tf.pad(x, pads), kernel, [1, stride, stride, 1], "VALID"), name)

    def _pads(self, x, kernel_size, stride):
        pads = [[0, 0]]
        for size in x.shape[1:3]:
            total = kernel_size - 1
            if self.padding == "same":
                total = max((-(-size // stride) - 1) * stride + kernel_size - size, 0)
            pads.append([total // 2, total - total // 2])
        return [*pads, [0, 0]]


def spread(kernel, dilation):
    """Returns a kernel with zeros between its taps, because TensorFlow has no gradient of dilations on the CPU."""
    height, width, inputs, outputs = kernel.shape
    taps = tf.pad(kernel[:, None, :, None], [[0, 0], [0, dilation - 1]] * 2 + [[0, 0]] * 2)
    taps = tf.reshape(taps, [height * dilation, width * dilation, inputs, outputs])
    return taps[: (height - 1) * dilation + 1, : (width - 1) * dilation + 1]


def resnet(image, layers, blocks, output_stride, multigrid=(1, 2, 4), pool_padding="same", strided_conv="3x3"):
    """Returns the features of a residual network. The kind of stem and blocks follows from the names of the weights."""
    x = image
    if "resnet/stem/filter" in layers.weights:
        x = tf.nn.relu(layers.conv(x, "resnet/stem", 2))
    else:
        for i, stride in enumerate((2, 1, 1)):
            x = tf.nn.relu(layers.conv(x, f"resnet/stem{i}", stride))
    if pool_padding == "fixed":
        # No value is negative after a ReLU, so zeros do not change a maximum.
        x = tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")
    else:
        x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    features, reached, dilation = [], 4, 1
    for stage, number in enumerate(blocks):
        stride = 1 if stage == 0 else 2
        if stride == 2 and reached == output_stride:
            stride, dilation = 1, 2 * dilation
        reached *= stride
        for block in range(number):
            name, first = f"resnet/stage{stage}/block{block}", stride if block == 0 else 1
            grid = multigrid[block] if stage == len(blocks) - 1 and dilation > 1 else 1
            if f"{name}/conv2/filter" in layers.weights:
                strides = (1, first) if strided_conv == "3x3" else (first, 1)
                y = tf.nn.relu(layers.conv(x, f"{name}/conv0", strides[0]))
                y = tf.nn.relu(layers.conv(y, f"{name}/conv1", strides[1], dilation * grid))
                y = layers.conv(y, f"{name}/conv2")
            else:
                y = tf.nn.relu(layers.conv(x, f"{name}/conv0", first, dilation * grid))
                y = layers.conv(y, f"{name}/conv1", 1, dilation * grid)
            if f"{name}/shortcut/filter" in layers.weights:
                x = layers.conv(x, f"{name}/shortcut", first)
            x = tf.nn.relu(x + y)
        features.append(x)
    return features


def xception(image, layers, middle_blocks, output_stride):
    """Returns the features of Xception-65."""
    x = tf.nn.relu(layers.conv(image, "xception/conv0", 2))
    x = tf.nn.relu(layers.conv(x, "xception/conv1"))
    names = ["entry0", "entry1", "entry2", *(f"middle{i}" for i in range(middle_blocks)), "exit0", "exit1"]
    features, reached, rate = [], 2, 1
    for block in names:
        nominal = 2 if block in ("entry0", "entry1", "entry2", "exit0") else 1
        stride = 1 if reached == output_stride else nominal
        reached *= stride
        y = x
        for i in range(3):
            name, step = f"xception/{block}/conv{i}", stride if i == 2 else 1
            if block == "exit1":
                y = tf.nn.relu(layers.depthwise(y, f"{name}/depthwise", step, rate))
                y = tf.nn.relu(layers.conv(y, f"{name}/pointwise"))
            else:
                y = layers.depthwise(tf.nn.relu(y), f"{name}/depthwise", step, rate)
                y = layers.conv(y, f"{name}/pointwise")
            if block in ("entry1", "entry2") and i == 1:
                features.append(y)
        if block.startswith("middle"):
            y += x
        elif block != "exit1":
            y += layers.conv(x, f"xception/{block}/shortcut", stride)
        x, rate = y, rate * nominal // stride
        if block in (f"middle{middle_blocks - 1}", "exit1"):
            features.append(x)
    return features
