"""The layers of DeepLab: convolutions, plain or depthwise separable, each with a batch norm and a ReLU; and resizes.

The channel dimension is called `channels` before and after each layer. The spatial dimensions may have any names.
"""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.conv_norm import ConvNorm


@dataclasses.dataclass(frozen=True)
class Layers:
    """Layers with common settings.

    Attributes:
      conv_norm: a `ConvNorm`, which computes the convolutions and the batch norms.
      separable: whether convolutions with a kernel of 3 x 3 are depthwise separable.
    """

    conv_norm: ConvNorm
    separable: bool

    def pointwise(self, x, name, filters):
        """Computes a 1 x 1 convolution, a norm and a ReLU.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.

        Returns:
          Tensor[batch, height, width, channels=filters]
        """
        return mi.ops.relu(self.conv_norm(x, name, filters, 1))

    def spatial(self, x, name, filters, rate=1):
        """Computes a 3 x 3 convolution, a norm and a ReLU, or a depthwise separable convolution instead.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.
          rate: distance between the taps of the kernel in pixels.

        Returns:
          Tensor[batch, height, width, channels=filters]
        """
        if self.separable:
            return self.conv_norm.separable(x, name, filters, dilation=rate, use_relu=True)
        return mi.ops.relu(self.conv_norm(x, name, filters, 3, dilation=rate))

    def mean_over_map(self, x, name, filters):
        """Computes the mean over the whole map, a 1 x 1 convolution, a norm and a ReLU, and broadcasts the result.

        The mean is float32 or larger. The reference resizes a map of one pixel here, which is a broadcast.

        Args:
          x: Tensor[batch, height, width, channels]
          name: scope of the weights.
          filters: number of channels of the result.

        Returns:
          Tensor[batch, height, width, channels=filters]
        """
        batch, height, width, channels = x.shape.dims
        pixel = [mi.mtf.Dimension(f"mean_{axis}", 1) for axis in ("height", "width")]
        mean = mi.mtf.cast(mi.ops.global_avg_pool(x), x.dtype)
        mean = self.pointwise(mi.mtf.reshape(mean, mi.mtf.Shape([batch, *pixel, channels])), name, filters)
        channels = mean.shape.dims[-1]
        mean = mi.mtf.reshape(mean, mi.mtf.Shape([batch, channels]))
        return mi.mtf.broadcast(mean, mi.mtf.Shape([batch, height, width, channels]))


def classify(x, name, classes, biases=None):
    """Computes the logits of each pixel with a 1 x 1 convolution and a bias.

    Tensor[batch, height, width, channels] -> Tensor[batch, height, width, classes], float32 or larger. `biases` are the
    initial biases, None for 0.
    """
    normal = tf.compat.v1.truncated_normal_initializer(stddev=0.01)
    biases = 0.0 if biases is None else biases
    conv = mi.layers.Conv(
        classes, 1, kernel_initializer=normal, bias_initializer=biases, output_name="classes", name=name
    )
    return mi.layers.widen(conv(x))


def resize(x, like, align_corners, name):
    """Resizes `x` linearly to the height and width of `like`; see `mi.ops.resize2d` for `align_corners`."""
    return mi.ops.resize2d(x, [dim.size for dim in like.shape.dims[-3:-1]], align_corners=align_corners, name=name)
