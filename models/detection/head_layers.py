"""The layers of the heads of Mask R-CNN: convolutions and dense layers, each with a bias or a batch norm."""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.layers import CHANNELS, relu, variable


@dataclasses.dataclass(frozen=True)
class HeadLayers:
    """Layers with common settings.

    Attributes:
      norm: whether batch norms follow hidden layers, which then have no biases.
      is_training: whether norms use the statistics of the batch and update their moving statistics.
      momentum: fraction of the moving statistics that each update of a batch norm keeps.
      epsilon: number that batch norms add to the variance.
    """

    norm: bool
    is_training: bool
    momentum: float
    epsilon: float

    def conv(self, x, name, filters, kernel_size, norm_name="norm"):
        """Computes a convolution, a bias or a norm, and a ReLU.

        Args:
          x: Tensor[batch..., height, width, channels]
          name: scope of the weights. Calls with the same name share them.
          filters: number of channels of the result.
          kernel_size: size of the kernel in pixels.
          norm_name: scope of the batch norm within the scope of the weights.

        Returns:
          Tensor[batch..., height, width, channels=filters]
        """
        with tf.compat.v1.variable_scope(name):
            kernel = [mi.mtf.Dimension(f"kernel_{axis}", kernel_size) for axis in ("height", "width")]
            filters = mi.mtf.Dimension("filters", filters)
            weights = variable(x, "filter", [*kernel, x.shape.dims[-1], filters], _he_normal())
            y = mi.ops.conv2d(x, weights, name=name)
            return self._finish(y, filters, norm_name)

    def conv_transpose(self, x, name, filters, size):
        """Computes a transposed convolution that enlarges maps `size` times, a bias or a norm, and a ReLU.

        Args:
          x: Tensor[batch..., height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.
          size: size of the kernel and its stride.

        Returns:
          Tensor[batch..., size height, size width, channels=filters]
        """
        with tf.compat.v1.variable_scope(name):
            kernel = [mi.mtf.Dimension(f"kernel_{axis}", size) for axis in ("height", "width")]
            filters = mi.mtf.Dimension("filters", filters)
            # Each result depends on a single tap, so the fan-in is the number of channels.
            stddev = (2 / x.shape.dims[-1].size) ** 0.5
            normal = tf.compat.v1.truncated_normal_initializer(stddev=stddev)
            weights = variable(x, "filter", [*kernel, filters, x.shape.dims[-1]], normal)
            y = mi.ops.conv2d_transpose(x, weights, size, name=name)
            return self._finish(y, filters, "norm")

    def dense(self, x, name, inputs, units):
        """Computes a dense layer, a bias or a norm, and a ReLU.

        Args:
          x: Tensor[batch..., inputs...]
          name: scope of the weights.
          inputs: the dimensions that the layer reads, the last ones of `x`.
          units: number of channels of the result.

        Returns:
          Tensor[batch..., channels=units]
        """
        with tf.compat.v1.variable_scope(name):
            units = mi.mtf.Dimension("units", units)
            weights = variable(x, "weights", [*inputs, units], _he_normal())
            shape = mi.mtf.Shape([*x.shape.dims[: -len(inputs)], units])
            return self._finish(mi.mtf.einsum([x, weights], output_shape=shape, name=name), units, "norm")

    def outputs(self, x, name, dims, stddev):
        """Computes a linear function of the channels.

        Args:
          x: Tensor[batch..., channels]
          name: scope of the weights. Calls with the same name share them.
          dims: the dimensions of the result that replace the channels.
          stddev: standard deviation of the initial weights.

        Returns:
          Tensor[batch..., dims...], float32 or larger.
        """
        with tf.compat.v1.variable_scope(name):
            normal = tf.compat.v1.truncated_normal_initializer(stddev=stddev)
            weights = variable(x, "weights", [x.shape.dims[-1], *dims], normal)
            shape = mi.mtf.Shape([*x.shape.dims[:-1], *dims])
            y = mi.mtf.einsum([x, weights], output_shape=shape, name=name)
            y += variable(x, "bias", dims, tf.zeros_initializer())
        return mi.mtf.cast(y, mi.ops.master_dtype(y.dtype))

    def _finish(self, y, dim, norm_name):
        if not self.norm:
            y = mi.ops.add_bias(y, variable(y, "bias", [dim], tf.zeros_initializer()))
        y = mi.mtf.rename_dimension(y, dim.name, CHANNELS)
        if self.norm:
            y = mi.ops.batch_norm(y, self.is_training, self.momentum, self.epsilon, name=norm_name)
        return relu(y)


def _he_normal():
    return tf.compat.v1.variance_scaling_initializer(2.0, "fan_in")  # He et al. 2015
