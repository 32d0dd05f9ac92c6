"""Checkpoints of reference ResNets with random values, and their features in plain TensorFlow.

The names and the order of the variables, and the networks, are written from the published programs of each format, not
from the name tables of this package.
"""

import itertools

import numpy as np
import tensorflow as tf

ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"
NORM = ("gamma", "beta", "moving_mean", "moving_variance")


class Arrays(dict):
    """The variables of a checkpoint, {name: array}. `conv_norm` adds those of a layer and computes it.

    Attributes:
      epsilon: number that norms add to the variance.
    """

    def __init__(self, epsilon, seed=0):
        super().__init__()
        self.epsilon, self._rng = epsilon, np.random.default_rng(seed)

    def conv_norm(self, x, kernel, norm, filters, size, stride=1, padding="fixed"):
        """Computes a convolution and a norm with the inference statistics.

        Args:
          x: the input, [batch, height, width, channels].
          kernel: the name of the kernel.
          norm: the name of the norm's variables, with "{}" in the place of "gamma" and so on.
          filters, size, stride: number of filters, size of the kernel, and stride.
          padding: "fixed" pads (size - 1) // 2 pixels before strided convolutions and the rest after; or "same".
        """
        shape = (size, size, x.shape[-1], filters)
        self[kernel] = (self._rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:3]))).astype(np.float32)
        gamma, beta, mean, variance = (norm.format(name) for name in NORM)
        self[gamma], self[variance] = (self._rng.uniform(0.5, 1.5, filters).astype(np.float32) for _ in range(2))
        self[beta], self[mean] = (self._rng.normal(0, 0.2, filters).astype(np.float32) for _ in range(2))
        pads = "SAME"
        if stride > 1 and padding == "fixed":
            before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
            x, pads = tf.pad(x, [[0, 0], [before, after], [before, after], [0, 0]]), "VALID"
        y = tf.nn.conv2d(x, self[kernel], stride, pads)
        return tf.nn.batch_normalization(y, self[mean], self[variance], self[beta], self[gamma], self.epsilon)


def tpu(image, blocks, filters, scope="", epsilon=1e-5):
    """Returns the variables and features of a network of tensorflow/tpu: layers are numbered as they are created."""
    arrays, numbers = Arrays(epsilon), itertools.count()

    def layer(x, *sizes):
        number = next(numbers)
        end = f"_{number}" if number else ""
        return arrays.conv_norm(x, f"{scope}conv2d{end}/kernel", f"{scope}batch_normalization{end}/{{}}", *sizes)

    x = tf.nn.max_pool2d(tf.nn.relu(layer(image, filters, 7, 2)), 3, 2, "SAME")
    features = []
    for group, number in enumerate(blocks):
        width = filters * 2**group
        for block in range(number):
            stride = 2 if group and not block else 1
            shortcut = layer(x, 4 * width, 1, stride) if block == 0 else x
            y = tf.nn.relu(layer(x, width, 1))
            y = tf.nn.relu(layer(y, width, 3, stride))
            x = tf.nn.relu(layer(y, 4 * width, 1) + shortcut)
        features.append(x)
    arrays[f"{scope}dense/kernel"] = np.zeros((x.shape[-1], 5), np.float32)
    arrays[f"{scope}dense/bias"] = np.zeros(5, np.float32)
    arrays[f"{scope}conv2d/kernel/Momentum"] = np.zeros_like(arrays[f"{scope}conv2d/kernel"])
    arrays["global_step"] = np.array(112603, np.int64)
    return dict(arrays), features


def tf_slim(image, blocks, filters, beta=False, first_strides=True, scope="resnet_v1_50/"):
    """Returns the variables and features of a network of TF-Slim.

    Args:
      image: the image.
      blocks: number of units in each block.
      filters: number of filters of the first block.
      beta: whether the stem has three convolutions.
      first_strides: whether the first unit of a block has its stride. In TF-Slim, the last unit of the block before
        has it.
      scope: the scope of the network.
    """
    arrays = Arrays(1e-5)

    def layer(x, name, *sizes):
        return arrays.conv_norm(x, f"{scope}{name}/weights", f"{scope}{name}/BatchNorm/{{}}", *sizes)

    stem = [("conv1", filters, 7, 2)]
    if beta:
        stem = [("conv1_1", filters, 3, 2), ("conv1_2", filters, 3, 1), ("conv1_3", 2 * filters, 3, 1)]
    x = image
    for sizes in stem:
        x = tf.nn.relu(layer(x, *sizes))
    x, features = tf.nn.max_pool2d(x, 3, 2, "SAME"), []
    for i, units in enumerate(blocks):
        width = filters * 2**i
        for j in range(units):
            is_strided = (i > 0 and j == 0) if first_strides else (i < len(blocks) - 1 and j == units - 1)
            stride = 2 if is_strided else 1
            name = f"block{i + 1}/unit_{j + 1}/bottleneck_v1"
            if x.shape[-1] == 4 * width:
                shortcut = tf.nn.max_pool2d(x, 1, stride, "SAME")
            else:
                shortcut = layer(x, f"{name}/shortcut", 4 * width, 1, stride)
            y = tf.nn.relu(layer(x, f"{name}/conv1", width, 1))
            y = tf.nn.relu(layer(y, f"{name}/conv2", width, 3, stride))
            x = tf.nn.relu(layer(y, f"{name}/conv3", 4 * width, 1) + shortcut)
        features.append(x)
    arrays[f"{scope}logits/weights"] = np.zeros((1, 1, x.shape[-1], 5), np.float32)
    arrays[f"{scope}logits/biases"] = np.zeros(5, np.float32)
    return dict(arrays), features


def tf_vision(image, blocks, filters, prefix="backbone/"):
    """Returns the variables and features of a network of official/vision: a Keras layer for each block."""
    arrays, numbers = Arrays(1e-5), itertools.count(2)

    def layer(x, kernel, norm, *sizes):
        return arrays.conv_norm(x, f"{prefix}{kernel}/kernel{ENDING}", f"{prefix}{norm}/{{}}{ENDING}", *sizes, "same")

    x = tf.nn.relu(layer(image, "layer_with_weights-0", "layer_with_weights-1", filters, 7, 2))
    x, features = tf.nn.max_pool2d(x, 3, 2, "SAME"), []
    for group, number in enumerate(blocks):
        width = filters * 2**group
        for block in range(number):
            name, stride = f"layer_with_weights-{next(numbers)}", 2 if group and not block else 1
            shortcut = layer(x, f"{name}/_shortcut", f"{name}/_norm0", 4 * width, 1, stride) if block == 0 else x
            y = tf.nn.relu(layer(x, f"{name}/_conv1", f"{name}/_norm1", width, 1, 1))
            y = tf.nn.relu(layer(y, f"{name}/_conv2", f"{name}/_norm2", width, 3, stride))
            x = tf.nn.relu(layer(y, f"{name}/_conv3", f"{name}/_norm3", 4 * width, 1, 1) + shortcut)
        features.append(x)
    kernel = f"{prefix}layer_with_weights-0/kernel"
    arrays[f"{kernel}/.OPTIMIZER_SLOT/optimizer/momentum{ENDING}"] = np.zeros_like(arrays[f"{kernel}{ENDING}"])
    arrays[f"model/layer_with_weights-1/bias{ENDING}"] = np.zeros(5, np.float32)
    return dict(arrays), features


def torchvision(image, blocks, filters, bottleneck=True, prefix=""):
    """Returns the tensors and features of a ResNet of torchvision. Axes of kernels: outputs, inputs, rows, columns."""
    arrays = Arrays(1e-5)

    def layer(x, conv, norm, *sizes):
        return arrays.conv_norm(x, f"{conv}.weight", f"{norm}.{{}}", *sizes)

    x = tf.nn.relu(layer(image, "conv1", "bn1", filters, 7, 2))
    x, features = _pool_after_padding(x), []
    for i, number in enumerate(blocks):
        width = filters * 2**i
        outputs = 4 * width if bottleneck else width
        for j in range(number):
            name, stride = f"layer{i + 1}.{j}", 2 if i and not j else 1
            sizes = [(1, 1), (3, stride), (1, 1)] if bottleneck else [(3, stride), (3, 1)]
            y = x
            for k, (size, step) in enumerate(sizes, 1):
                last = k == len(sizes)
                y = layer(y, f"{name}.conv{k}", f"{name}.bn{k}", outputs if last else width, size, step)
                y = y if last else tf.nn.relu(y)
            if stride > 1 or x.shape[-1] != outputs:
                x = layer(x, f"{name}.downsample.0", f"{name}.downsample.1", outputs, 1, stride)
            x = tf.nn.relu(x + y)
        features.append(x)
    names = dict(zip(NORM, ("weight", "bias", "running_mean", "running_var"), strict=True))
    tensors = {"fc.weight": np.zeros((5, x.shape[-1]), np.float32)}
    for name, value in arrays.items():
        layer_name, _, last = name.rpartition(".")
        key = f"{prefix}{layer_name}.{names.get(last, last)}"
        tensors[key] = value.transpose(3, 2, 0, 1) if value.ndim == 4 else value
    return tensors, features


def keras_applications(image, blocks, filters):
    """Returns the variables and features of a ResNet of Keras applications, whose image is blue, green and red."""
    arrays, rng = Arrays(1.001e-5), np.random.default_rng(7)

    def layer(x, name, outputs, *sizes):
        y = arrays.conv_norm(x, f"{name}_conv/kernel", f"{name}_bn/{{}}", outputs, *sizes)
        bias = arrays[f"{name}_conv/bias"] = rng.normal(0, 0.2, outputs).astype(np.float32)
        gamma, variance = (arrays[f"{name}_bn/{own}"] for own in ("gamma", "moving_variance"))
        return y + bias * gamma / np.sqrt(variance + arrays.epsilon)

    x = tf.nn.relu(layer(image[..., ::-1], "conv1", filters, 7, 2))
    x, features = _pool_after_padding(x), []
    for i, number in enumerate(blocks):
        width = filters * 2**i
        for j in range(number):
            name, stride = f"conv{i + 2}_block{j + 1}", 2 if i and not j else 1
            y = tf.nn.relu(layer(x, f"{name}_1", width, 1, stride))
            y = tf.nn.relu(layer(y, f"{name}_2", width, 3))
            y = layer(y, f"{name}_3", 4 * width, 1)
            x = tf.nn.relu(y + (x if j else layer(x, f"{name}_0", 4 * width, 1, stride)))
        features.append(x)
    return dict(arrays), features


def _pool_after_padding(x):
    """Computes a 3 x 3 max pool with stride 2 and a pixel of padding on each side. The input is not negative."""
    return tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")


def write(path, arrays):
    """Writes a checkpoint of named arrays, as `tf.compat.v1.train.Saver` does. Returns its path."""
    names, values = zip(*arrays.items(), strict=True)
    tensors = [*map(tf.constant, values)]
    tf.raw_ops.SaveV2(prefix=str(path), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
    return path
