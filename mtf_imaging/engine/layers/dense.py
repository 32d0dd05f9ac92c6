"""The dense layer."""

import dataclasses

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.activation import Activation, activate
from mtf_imaging.engine.layers.channels import CHANNELS, free_name, rename_channels
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.weights import Initializer, add_bias, initializer, variable
from mtf_imaging.errors import ShapeError


@dataclasses.dataclass(eq=False, repr=False)
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

    units: int
    use_bias: bool = True
    activation: Activation = None
    kernel_initializer: Initializer = "glorot_uniform"
    bias_initializer: Initializer = 0.0
    output_name: str = CHANNELS
    name: str | None = None

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        if not x.shape.dims:
            raise ShapeError(
                f"{self._title}: the input has no dimensions, but the layer needs channels. Fix: keep the channels in "
                "reductions, for instance with mtf.reduce_mean(x, output_shape=[batch, channels])."
            )
        *kept, channels = x.shape.dims
        units = mtf.Dimension(free_name(x, self.output_name, "units"), self.units)
        with tf.compat.v1.variable_scope(name):
            weights = variable(x, "weights", [channels, units], initializer(self.kernel_initializer))
            y = mtf.einsum([x, weights], output_shape=mtf.Shape([*kept, units]), name=name)
            y = rename_channels(y, self.output_name)
            y = add_bias(y, self.bias_initializer) if self.use_bias else y
            return activate(y, self.activation)
