"""Convolutions with a bias, whose weights several feature maps may share, and the gathering of small maps."""

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.layers import CHANNELS, kernel_dims, variable


def conv(x, name, filters, kernel_size, stride=1, initializer=None, bias=0.0, scope=None):
    """Computes `y = conv(x, filter) + bias` with the padding "SAME".

    Calls with the same scope share their weights.

    Args:
      x: Tensor[batch, height, width, channels]
      name: name of the operation.
      filters: number of channels of the result.
      kernel_size: size of the kernel in pixels.
      stride: distance between two windows in pixels.
      initializer: initializer of the filter, by default normally distributed with the variance `1 / fan_in`.
      bias: initial value of the bias.
      scope: scope of the weights, by default the name.

    Returns:
      Tensor[batch, height / stride, width / stride, channels=filters], with sizes rounded up.
    """
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(scope or name):
        initializer = initializer or tf.compat.v1.variance_scaling_initializer(1.0, "fan_in")
        kernel = variable(x, "filter", [*kernel_dims(x, kernel_size), x.shape.dims[-1], outputs], initializer)
        y = mi.ops.conv2d(x, kernel, strides=stride, name=name)
        y = mi.ops.add_bias(y, variable(y, "bias", [outputs], tf.constant_initializer(bias)))
    return mi.mtf.rename_dimension(y, outputs.name, CHANNELS)


def gather_small(x, name, least):
    """Gathers the dimensions of a map whose slices are smaller than `least` pixels.

    Args:
      x: Tensor[batch, height, width, channels]
      name: name of the operation.
      least: minimum size of a slice in pixels. 0 gathers no dimension.

    Returns:
      The tensor, in which gathered dimensions have the names of `mi.ops.gather_slices`.
    """
    slices = mi.ops.slices_per_dimension(x) if least else {}
    parts = [(dim, slices.get(dim.name, 1)) for dim in x.shape.dims[1:-1]]
    return mi.ops.gather_slices(x, [dim.name for dim, n in parts if n > 1 and -(-dim.size // n) < least], name)
