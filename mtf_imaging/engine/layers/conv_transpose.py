"""The transposed convolution layer."""

import dataclasses
import math
from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.activation import Activation, activate
from mtf_imaging.engine.layers.channels import CHANNELS, rename_channels
from mtf_imaging.engine.layers.conv import FILTERS
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.spatial import Padding, Sizes, kernel_dims, operation, per_dim, spatial_dims
from mtf_imaging.engine.layers.weights import Initializer, add_bias, initializer, variable


@dataclasses.dataclass(eq=False, repr=False)
class ConvTranspose(Layer):
    """A transposed convolution in 1 to 3 spatial dimensions, with a bias and an activation.

    It is the adjoint of a convolution with the same kernel and strides. With "same" padding, a convolution divides
    sizes by its strides and rounds up, so with strides of 2, a size of 4 can become 7 or 8. Every dimension may be
    split (`mi.ops.conv3d_transpose`).

    The weights are `NAME/filter`, [kernel..., filters, channels], and `NAME/bias`, [filters].

    Args:
      filters: number of channels of the result.
      kernel_size: size of the kernel: an int, or one for each spatial dimension. With sizes for each dimension, the
        input may have several batch dimensions.
      strides: an int, or one for each spatial dimension. None uses `kernel_size`.
      output_sizes: spatial sizes of the result. None multiplies the input sizes by the strides.
      padding: "same" or "valid", or a pair (before, after) for each spatial dimension.
      use_bias: whether to add a bias.
      activation: see `Conv`.
      kernel_initializer: see `Conv`. With "he_normal", the variance of the weights is 2 divided by the number of
          weights that contribute to one value of the result.
      bias_initializer: see `Conv`.
      name: see `Layer`.
    """

    default_name = "conv_transpose"

    filters: int
    kernel_size: Sizes = 2
    strides: Sizes | None = None
    output_sizes: Sizes | None = None
    padding: Padding = "same"
    use_bias: bool = True
    activation: Activation = None
    kernel_initializer: Initializer = "he_normal"
    bias_initializer: Initializer = 0.0
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.strides = self.kernel_size if self.strides is None else self.strides

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        dims = spatial_dims(self._title, x, self.kernel_size, self.strides, self.output_sizes)
        with tf.compat.v1.variable_scope(name):
            shape = [
                *kernel_dims(dims, self.kernel_size),
                mtf.Dimension(FILTERS, self.filters),
                x.shape.dims[-1],
            ]
            kernel = variable(x, "filter", shape, self._initializer(dims))
            y = operation("conv{}d_transpose", dims)(
                x, kernel, self.strides, self.padding, self.output_sizes, name=name
            )
            y = rename_channels(y, CHANNELS)
            y = add_bias(y, self.bias_initializer) if self.use_bias else y
            return activate(y, self.activation)

    def _initializer(self, dims: list[mtf.Dimension]) -> Callable:
        if self.kernel_initializer != "he_normal":
            return initializer(self.kernel_initializer)
        # The last dimension of the filter has the channels of the input, so TensorFlow's "fan_out" is the number of
        # weights by which one input voxel is multiplied for one filter. A voxel of the result is the sum of fewer
        # products, because only one of `strides` taps along each dimension reaches it.
        scale = 2.0 * math.prod(per_dim(dims, self.strides or self.kernel_size))
        return tf.compat.v1.variance_scaling_initializer(scale, "fan_out")
