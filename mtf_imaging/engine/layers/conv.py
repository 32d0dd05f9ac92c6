"""The convolution layer."""

import dataclasses

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.activation import Activation, activate
from mtf_imaging.engine.layers.channels import CHANNELS, free_name, rename_channels
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.spatial import Padding, Sizes, kernel_dims, operation, spatial_dims
from mtf_imaging.engine.layers.weights import Initializer, add_bias, initializer, variable
from mtf_imaging.errors import ShapeError

FILTERS = "filters"


@dataclasses.dataclass(eq=False, repr=False)
class Conv(Layer):
    """A convolution in 1 to 3 spatial dimensions, with a bias and an activation.

    The input determines the number of spatial dimensions. Every dimension may be split (`mi.ops.conv3d`).

    The weights are `NAME/filter`, [kernel..., channels / groups, filters], and `NAME/bias`, [filters].

    Args:
      filters: number of channels of the result.
      kernel_size: size of the kernel: an int, or one for each spatial dimension. With sizes for each dimension, the
        input may have several batch dimensions.
      strides: an int, or one for each spatial dimension.
      padding: "same" or "valid", or a pair (before, after) for each spatial dimension.
      dilation: distance between the taps of the kernel: an int, or one for each spatial dimension.
      groups: number of groups, which must divide the input channels and the filters. A convolution with as many groups
          as channels is depthwise. 1D convolutions do not support groups.
      use_bias: whether to add a bias.
      activation: "relu", "leaky_relu", "gelu", "silu", "sigmoid", "tanh" or "softmax", a function of the result, or
        None.
      kernel_initializer: "he_normal", "glorot_uniform", "lecun_normal" or "zeros", or a TensorFlow initializer.
      bias_initializer: a number, a number for each filter, the name of an initializer, or a TensorFlow initializer.
      output_name: name of the result's channel dimension. The layers after this one need the name `channels`.
      name: see `Layer`.
    """

    default_name = "conv"

    filters: int
    kernel_size: Sizes = 3
    strides: Sizes = 1
    padding: Padding = "same"
    dilation: Sizes = 1
    groups: int = 1
    use_bias: bool = True
    activation: Activation = None
    kernel_initializer: Initializer = "he_normal"
    bias_initializer: Initializer = 0.0
    output_name: str = CHANNELS
    name: str | None = None

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        dims = spatial_dims(self._title, x, self.kernel_size, self.strides, self.dilation)
        options = {} if self.groups == 1 else {"groups": self.groups}
        if options and len(dims) == 1:
            raise ShapeError(
                f"{self._title}: groups = {self.groups}, but the input {x.shape} has one spatial dimension. "
                "Fix: add a spatial dimension of size 1, or use groups=1."
            )
        with tf.compat.v1.variable_scope(name):
            kernel = self._kernel(x, dims)
            y = operation("conv{}d", dims)(
                x, kernel, self.strides, self.padding, dilations=self.dilation, name=name, **options
            )
            y = rename_channels(y, self.output_name)
            y = add_bias(y, self.bias_initializer) if self.use_bias else y
            return activate(y, self.activation)

    def _kernel(self, x: mtf.Tensor, dims: list[mtf.Dimension]) -> mtf.Tensor:
        inputs = x.shape.dims[-1]
        if self.groups > 1:
            if inputs.size % self.groups or self.filters % self.groups:
                raise ShapeError(
                    f"{self._title}: groups = {self.groups} must divide the {inputs.size} channels of the input "
                    f"{x.shape} and filters = {self.filters}. Fix: use another number of groups or filters."
                )
            inputs = mtf.Dimension("channels_per_group", inputs.size // self.groups)
            # If slices of channels are whole groups, filters with the name of the channels need no exchange.
            name = x.shape.dims[-1].name
        else:
            name = free_name(x, self.output_name, FILTERS)
        outputs = mtf.Dimension(name, self.filters)
        shape = [*kernel_dims(dims, self.kernel_size), inputs, outputs]
        return variable(x, "filter", shape, initializer(self.kernel_initializer))
