"""The depthwise separable convolution layer."""

import dataclasses

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.activation import Activation, activate
from mtf_imaging.engine.layers.conv import Conv
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.spatial import Padding, Sizes
from mtf_imaging.engine.layers.weights import Initializer, add_bias


@dataclasses.dataclass(eq=False, repr=False)
class SeparableConv(Layer):
    """A depthwise and then a pointwise convolution in 2 or 3 spatial dimensions, with a bias and an activation.

    The depthwise convolution has a kernel for each channel, and the pointwise one is a convolution with a kernel size
    of 1. Every dimension may be split (`mi.ops.separable_conv3d`).

    The weights are `NAME/depthwise/filter`, [kernel..., 1, channels x depth_multiplier], `NAME/pointwise/filter`,
    [1..., channels x depth_multiplier, filters], and `NAME/bias`, [filters].

    Args:
      filters: number of channels of the result.
      kernel_size: size of the depthwise kernels: an int, or one for each spatial dimension. With sizes for each
        dimension, the input may have several batch dimensions.
      strides: strides of the depthwise convolution: an int, or one for each spatial dimension.
      padding: "same" or "valid", or a pair (before, after) for each spatial dimension.
      dilation: distance between the taps of the depthwise kernels: an int, or one for each spatial dimension.
      use_bias: whether to add a bias.
      activation: see `Conv`.
      depth_multiplier: number of depthwise kernels for each channel.
      kernel_initializer: initializer of both kernels, see `Conv`.
      bias_initializer: see `Conv`.
      name: see `Layer`.
    """

    default_name = "separable_conv"

    filters: int
    kernel_size: Sizes = 3
    strides: Sizes = 1
    padding: Padding = "same"
    dilation: Sizes = 1
    use_bias: bool = True
    activation: Activation = None
    depth_multiplier: int = 1
    kernel_initializer: Initializer = "he_normal"
    bias_initializer: Initializer = 0.0
    name: str | None = None

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        sizes = [self.kernel_size, self.strides, self.dilation]
        many = next((len(size) for size in sizes if isinstance(size, tuple | list)), None)
        channels = x.shape.dims[-1].size
        depthwise = Conv(
            channels * self.depth_multiplier,
            self.kernel_size,
            self.strides,
            self.padding,
            self.dilation,
            groups=channels,
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
            name="depthwise",
        )
        pointwise = Conv(
            self.filters,
            1 if many is None else (1,) * many,
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
            name="pointwise",
        )
        with tf.compat.v1.variable_scope(name):
            y = pointwise(depthwise(x))
            y = add_bias(y, self.bias_initializer) if self.use_bias else y
            return activate(y, self.activation)
