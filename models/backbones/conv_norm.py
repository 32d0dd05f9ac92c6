"""Convolutions followed by a batch norm, and the settings that they share in a network."""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.gathering import gather_small_slices

PADDINGS = ("fixed", "same")


@dataclasses.dataclass(frozen=True)
class ConvNorm:
    """A convolution and a batch norm, created by each call.

    Attributes:
      is_training: whether norms use the statistics of the batch and update their moving statistics.
      momentum: fraction of the moving statistics that each update of a batch norm keeps.
      epsilon: number that batch norms add to the variance.
      padding: "fixed" or "same", see `window_padding`.
      gather_below: minimum size of a slice in pixels, see `gather`.
    """

    is_training: bool
    momentum: float
    epsilon: float
    padding: str = "fixed"
    gather_below: int = 0

    def __call__(self, x, name, filters, kernel_size, stride=1, dilation=1):
        """Computes `norm(conv(x))`. The weights are in the scopes `name` and `{name}_norm`.

        Args:
          x: Tensor[batch, height, width, channels]
          name: name of the scopes.
          filters: number of channels of the result.
          kernel_size: size of the kernel in pixels.
          stride: distance between neighboring windows in pixels.
          dilation: distance between neighboring pixels of a window.

        Returns:
          Tensor[batch, height / stride, width / stride, channels=filters], with sizes rounded up.
        """
        return self._norm(self._conv(x, name, filters, kernel_size, stride, dilation), name)

    def separable(self, x, name, filters, stride=1, dilation=1, use_relu=False):
        """Computes `norm(pointwise(norm(depthwise(x))))`: a 3 x 3 depthwise convolution, and a 1 x 1 convolution.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.
          stride, dilation: stride and dilation of the depthwise convolution, see `__call__`.
          use_relu: whether to apply a ReLU after each of the two norms.

        Returns:
          Tensor[batch, height / stride, width / stride, channels=filters], with sizes rounded up.
        """
        with tf.compat.v1.variable_scope(name):
            channels = x.shape.dims[-1].size
            x = self._norm(self._conv(x, "depthwise", channels, 3, stride, dilation, groups=channels), "depthwise")
            x = self(mi.ops.relu(x) if use_relu else x, "pointwise", filters, 1)
            return mi.ops.relu(x) if use_relu else x

    def gather(self, x, name, stride):
        """Gathers the dimensions whose slices would have fewer than `gather_below` pixels after a strided operation."""
        return gather_small_slices(x, f"{name}_gather", stride, self.gather_below)

    def _conv(self, x, name, filters, kernel_size, stride, dilation, groups=1):
        padding = window_padding(self.padding, kernel_size, stride, dilation)
        conv = mi.layers.Conv(filters, kernel_size, stride, padding, dilation, groups, use_bias=False, name=name)
        return conv(x)

    def _norm(self, x, name):
        return mi.ops.batch_norm(x, self.is_training, self.momentum, self.epsilon, name=f"{name}_norm")


def window_padding(padding, kernel_size, stride, dilation=1):
    """Returns the padding of a convolution or a pool of images, as `mi.ops.conv2d` takes it.

    Args:
      padding: "same" is TensorFlow's "SAME", which depends on the size of the image. "fixed" does not: windows with a
        stride have `(extent - 1) // 2` zeros before the image and the rest after it, where `extent` is the size of the
        dilated kernel. Published ResNets and Xceptions have this padding. With an even size and a stride of 2, it is
        (1, 1) instead of (0, 1) for a 3 x 3 kernel. Without a stride, both paddings are equal.
      kernel_size: size of the kernel in pixels.
      stride: distance between neighboring windows in pixels.
      dilation: distance between neighboring pixels of a window.
    """
    if padding == "same" or stride == 1:
        return "SAME"
    zeros = (kernel_size - 1) * dilation
    return [(zeros // 2, zeros - zeros // 2)] * 2
