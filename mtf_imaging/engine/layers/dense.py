"""The dense layer."""

from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.activation import Activation, activate, check_activation
from mtf_imaging.engine.layers.channels import CHANNELS, free_name, rename_channels
from mtf_imaging.engine.layers.checks import as_count, check_function
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.outputs import check_output_dim, check_output_name
from mtf_imaging.engine.layers.weights import INITIALIZERS, add_bias, check_bias, initializer, variable
from mtf_imaging.errors import ShapeError


class Dense(Layer):
    """A linear function of the channels with a bias and an activation, like `keras.layers.Dense`.

    All dimensions before the channels are kept, so it may follow a mean over the image or act on every voxel. Every
    dimension may be split.

    The weights are `NAME/weights`, [channels, units], and `NAME/bias`, [units].

    Args:
      units: number of channels of the result.
      use_bias: whether to add a bias.
      activation: see `Conv`.
      kernel_initializer: see `Conv`.
      bias_initializer: see `Conv`.
      output_name: name of the result's last dimension. The layers after this one need the name `channels`.
      name: see `Layer`.
    """

    default_name = "dense"

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        activation: Activation = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = 0.0,
        output_name: str = CHANNELS,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.units = as_count(self._title, "units", units)
        check_activation(self._title, activation)
        check_function(self._title, "kernel_initializer", kernel_initializer, INITIALIZERS, "a TensorFlow initializer")
        self.use_bias, self.activation = use_bias, activation
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.output_name = output_name
        check_bias(self._title, bias_initializer, units)
        check_output_name(self._title, output_name)

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        if not x.shape.dims:
            raise ShapeError(
                f"{self._title}: the input has no dimensions, but the layer needs channels. Fix: keep the channels in "
                "reductions, for instance with mtf.reduce_mean(x, output_shape=[batch, channels])."
            )
        check_output_dim(self._title, x, self.output_name)
        *kept, channels = x.shape.dims
        units = mtf.Dimension(free_name(x, self.output_name, "units"), self.units)
        with tf.compat.v1.variable_scope(name):
            weights = variable(x, "weights", [channels, units], initializer(self.kernel_initializer))
            y = mtf.einsum([x, weights], output_shape=mtf.Shape([*kept, units]), name=name)
            y = rename_channels(y, self.output_name)
            y = add_bias(y, self.bias_initializer) if self.use_bias else y
            return activate(y, self.activation)
