"""Layers with their weights: convolutions, plain or depthwise separable, each with a batch norm and a ReLU.

The channel dimension is called `channels` before and after each layer. The spatial dimensions may have any names.
Weights are float32 or larger, and are cast to the dtype of the activations when they are used.
"""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi

CHANNELS = "channels"


@dataclasses.dataclass(frozen=True)
class Layers:
    """Layers with common settings.

    Attributes:
      is_training: whether batch norms use the statistics of the batch and update their moving statistics.
      separable: whether convolutions with a kernel of 3 x 3 are depthwise separable.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
    """

    is_training: bool
    separable: bool
    norm_momentum: float
    norm_epsilon: float

    def pointwise(self, x, name, filters):
        """Computes a 1 x 1 convolution, a norm and a ReLU.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.

        Returns:
          Tensor[batch, height, width, channels=filters]
        """
        return self._norm_relu(_conv(x, name, filters, 1), name)

    def spatial(self, x, name, filters, rate=1):
        """Computes a 3 x 3 convolution, a norm and a ReLU, or the same depthwise and then pointwise.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.
          rate: distance between the taps of the kernel in pixels.

        Returns:
          Tensor[batch, height, width, channels=filters]
        """
        if not self.separable:
            return self._norm_relu(_conv(x, name, filters, 3, rate), name)
        x = self._norm_relu(_depthwise_conv(x, f"{name}_depthwise", rate), f"{name}_depthwise")
        return self.pointwise(x, f"{name}_pointwise", filters)

    def mean_over_map(self, x, name, filters):
        """Computes the mean over the whole map, a 1 x 1 convolution, a norm and a ReLU, and broadcasts the result.

        The mean is float32 or larger. A resize of a map of one pixel, which the reference has here, is a broadcast.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.

        Returns:
          Tensor[batch, height, width, channels=filters]
        """
        *dims, channels = x.shape.dims
        batch = dims[:-2]
        mean = mi.mtf.reduce_mean(
            mi.mtf.cast(x, mi.ops.master_dtype(x.dtype)), output_shape=mi.mtf.Shape([*batch, channels])
        )
        pixel = [mi.mtf.Dimension(f"mean_{axis}", 1) for axis in ("height", "width")]
        mean = mi.mtf.reshape(mi.mtf.cast(mean, x.dtype), mi.mtf.Shape([*batch, *pixel, channels]))
        mean = self.pointwise(mean, name, filters)
        channels = mean.shape.dims[-1]
        mean = mi.mtf.reshape(mean, mi.mtf.Shape([*batch, channels]))
        return mi.mtf.broadcast(mean, mi.mtf.Shape([*dims, channels]))

    def _norm_relu(self, x, name):
        norm = mi.ops.batch_norm(x, self.is_training, self.norm_momentum, self.norm_epsilon, name=f"{name}_norm")
        return mi.ops.leaky_relu(norm, 0.0)


def classify(x, name, classes):
    """Computes the logits of each pixel with a 1 x 1 convolution and a bias.

    Tensor[batch, height, width, channels] -> Tensor[batch, height, width, classes], float32 or larger.
    """
    y = _conv(x, name, classes, 1, initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.01), output="classes")
    with tf.compat.v1.variable_scope(name):
        y = mi.ops.add_bias(y, _variable(y, "bias", y.shape.dims[-1:], tf.zeros_initializer()))
    return mi.mtf.cast(y, mi.ops.master_dtype(y.dtype))


def concat_channels(tensors):
    """Concatenates Tensors[batch, height, width, channels] along `channels`."""
    # Concatenation needs whole dimensions, so the channels get a name that no layout rule mentions.
    renamed = [mi.mtf.rename_dimension(x, CHANNELS, "joined") for x in tensors]
    return mi.mtf.rename_dimension(mi.mtf.concat(renamed, "joined"), "joined", CHANNELS)


def resize(x, like, name):
    """Resizes `x` linearly to the height and width of `like`. The centers of the pixels at the border do not move."""
    return mi.ops.resize2d(x, [dim.size for dim in like.shape.dims[-3:-1]], align_corners=True, name=name)


def split_like(x, like, name):
    """Splits the dimensions of `x` again that are gathered in `x` but not in `like`.

    Args:
      x: Tensor[batch, height, width, channels]
      like: Tensor[batch, height, width, channels], of any sizes.
      name: name of the operation.

    Returns:
      The tensor `x` with the dimension names of `like`.
    """
    pairs = zip(x.shape.dims[-3:-1], like.shape.dims[-3:-1])
    return mi.ops.scatter_slices(x, [want.name for have, want in pairs if have.name != want.name], name)


def _conv(x, name, filters, kernel_size, rate=1, initializer=None, output=CHANNELS):
    """Computes `y = conv(x, filter)`, without a bias: Tensor[batch, height, width, `output`=filters]."""
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        kernel = _variable(x, "filter", [*_kernel(kernel_size), x.shape.dims[-1], outputs], initializer or _he_normal())
        y = mi.ops.conv2d(x, kernel, dilations=rate, name=name)
    return mi.mtf.rename_dimension(y, outputs.name, output)


def _depthwise_conv(x, name, rate):
    """Computes a 3 x 3 convolution of each channel: Tensor[batch, height, width, channels] of the same shape."""
    channels = x.shape.dims[-1]
    with tf.compat.v1.variable_scope(name):
        one = mi.mtf.Dimension("inputs_per_group", 1)
        kernel = _variable(x, "filter", [*_kernel(3), one, channels], _he_normal())
        return mi.ops.conv2d(x, kernel, dilations=rate, groups=channels.size, name=name)


def _he_normal():
    return tf.compat.v1.variance_scaling_initializer(2.0, "fan_in")  # He et al. 2015


def _kernel(size):
    return [mi.mtf.Dimension(f"kernel_{axis}", size) for axis in ("height", "width")]


def _variable(x, name, dims, initializer):
    """Creates a variable, and casts it to the dtype of the activations `x`."""
    dtype = mi.ops.master_dtype(x.dtype)
    variable = mi.mtf.get_variable(x.mesh, name, mi.mtf.Shape(dims), dtype=dtype, initializer=initializer)
    return mi.mtf.cast(variable, x.dtype)
