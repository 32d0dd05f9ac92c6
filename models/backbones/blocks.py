"""Residual blocks (He et al. 2016). Every convolution is followed by a batch norm.

If the result and the input of a block differ in shape, a 1 x 1 convolution and a norm convert the input before the sum.
"""

from typing import NamedTuple

import mtf_imaging as mi


def basic_block(conv_norm, x, filters, stride=1, dilation=1):
    """Computes two 3 x 3 convolutions with a ReLU between them, adds the input, and applies a ReLU.

    Args:
      conv_norm: a `ConvNorm`.
      x: Tensor[batch, height, width, channels]
      filters: number of filters of both convolutions.
      stride: stride of the first convolution.
      dilation: dilation of both convolutions.

    Returns:
      Tensor[batch, height / stride, width / stride, channels=filters], with sizes rounded up.
    """
    y = mi.ops.relu(conv_norm(x, "conv0", filters, 3, stride, dilation))
    return _add_and_relu(conv_norm, x, conv_norm(y, "conv1", filters, 3, 1, dilation), stride)


def bottleneck_block(conv_norm, x, filters, stride=1, dilation=1, strided_conv="3x3"):
    """Computes a 1 x 1, a 3 x 3 and a 1 x 1 convolution with ReLUs between them, adds the input, and applies a ReLU.

    Args:
      conv_norm: a `ConvNorm`.
      x: Tensor[batch, height, width, channels]
      filters: number of filters of the first two convolutions. The third has four times as many.
      stride: stride of the block.
      dilation: dilation of the 3 x 3 convolution.
      strided_conv: the convolution that has the stride: "3x3", or "1x1" for the first one.

    Returns:
      Tensor[batch, height / stride, width / stride, channels=4 filters], with sizes rounded up.
    """
    first, second = (1, stride) if strided_conv == "3x3" else (stride, 1)
    y = mi.ops.relu(conv_norm(x, "conv0", filters, 1, first))
    y = mi.ops.relu(conv_norm(y, "conv1", filters, 3, second, dilation))
    return _add_and_relu(conv_norm, x, conv_norm(y, "conv2", EXPANSION * filters, 1), stride)


class StemConv(NamedTuple):
    """A convolution of a stem. It has `factor` times the filters of the first stage."""

    name: str
    kernel_size: int
    factor: int = 1
    stride: int = 1


# {stem: its convolutions}: that of He et al. 2016, and that of TF-Slim's resnet_v1_beta
STEMS = {
    "7x7": (StemConv("stem", 7, stride=2),),
    "v1-beta": (StemConv("stem0", 3, stride=2), StemConv("stem1", 3), StemConv("stem2", 3, factor=2)),
}
EXPANSION = 4
STRIDED_CONVS = ("3x3", "1x1")


def _add_and_relu(conv_norm, x, y, stride):
    if x.shape != y.shape:
        x = conv_norm(x, "shortcut", y.shape.dims[-1].size, 1, stride)
    return mi.ops.relu(x + y)
