"""The layers of Mask R-CNN's heads: convolutions and dense layers, each with a bias or a batch norm."""

import dataclasses
import functools
import math

import tensorflow as tf

import mtf_imaging as mi


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

    def conv(self, x, name, filters, kernel_size, stddev=None, norm_name="norm"):
        """Computes a convolution, a bias or a norm, and a ReLU.

        Args:
          x: Tensor[batch..., height, width, channels]
          name: scope of the weights. Calls with the same name share them.
          filters: number of channels of the result.
          kernel_size: size of the kernel in pixels.
          stddev: standard deviation of the initial weights. None selects the value of He et al. (2015) for the number
              of outputs that an input affects.
          norm_name: scope of the batch norm within the scope of the weights.

        Returns:
          Tensor[batch..., height, width, channels=filters]
        """
        options = self._options(stddev or (2 / (kernel_size**2 * filters)) ** 0.5, norm_name)
        return mi.layers.Conv(filters, (kernel_size, kernel_size), **options, name=name)(x)

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
        options = self._options((2 / (size**2 * filters)) ** 0.5, "norm")
        return mi.layers.ConvTranspose(filters, (size, size), **options, name=name)(x)

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
            # The limit of Glorot et al. (2010). All dimensions that the layer reads count as inputs.
            limit = (6 / (math.prod(dim.size for dim in inputs) + units.size)) ** 0.5
            uniform = tf.compat.v1.random_uniform_initializer(-limit, limit)
            weights = mi.layers.variable(x, "weights", [*inputs, units], uniform)
            shape = mi.mtf.Shape([*x.shape.dims[: -len(inputs)], units])
            y = mi.mtf.einsum([x, weights], output_shape=shape, name=name)
            if not self.norm:
                y = mi.ops.add_bias(y, mi.layers.variable(y, "bias", [units], tf.zeros_initializer()))
            return self._norm_and_relu(mi.mtf.rename_dimension(y, units.name, "channels"))

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
            weights = mi.layers.variable(x, "weights", [x.shape.dims[-1], *dims], _normal(stddev))
            shape = mi.mtf.Shape([*x.shape.dims[:-1], *dims])
            y = mi.mtf.einsum([x, weights], output_shape=shape, name=name)
            y += mi.layers.variable(x, "bias", dims, tf.zeros_initializer())
        return mi.layers.widen(y)

    def _options(self, stddev, norm_name):
        activation = functools.partial(self._norm_and_relu, norm_name=norm_name)
        return {"use_bias": not self.norm, "activation": activation, "kernel_initializer": _normal(stddev)}

    def _norm_and_relu(self, y, norm_name="norm"):
        if self.norm:
            y = mi.ops.batch_norm(y, self.is_training, self.momentum, self.epsilon, name=norm_name)
        return mi.ops.relu(y)


def _normal(stddev):
    return tf.compat.v1.random_normal_initializer(stddev=stddev)
