"""Depthwise separable convolutions."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.conv.convolution import conv2d, conv3d
from mtf_imaging.engine.ops.window_op import Ints, Padding


def separable_conv2d(
    x: mtf.Tensor,
    depthwise_filter: mtf.Tensor,
    pointwise_filter: mtf.Tensor,
    strides: Ints = 1,
    padding: Padding = "SAME",
    dilations: Ints = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a depthwise and then a pointwise 2D convolution, like `tf.nn.separable_conv2d`.

    Args:
      x: Tensor[batch..., x, y, in]
      depthwise_filter: Tensor[fx, fy, 1, middle], where `middle` has m channels for each channel of `x`.
      pointwise_filter: Tensor[1, 1, middle, out]
      strides, padding, dilations, name: see `separable_conv3d`.

    Returns:
      Tensor[batch..., x', y', out]
    """
    groups = x.shape.dims[-1].size
    middle = conv2d(x, depthwise_filter, strides, padding, dilations, groups, _suffixed(name, "depthwise"))
    return conv2d(middle, pointwise_filter, name=_suffixed(name, "pointwise"))


def separable_conv3d(
    x: mtf.Tensor,
    depthwise_filter: mtf.Tensor,
    pointwise_filter: mtf.Tensor,
    strides: Ints = 1,
    padding: Padding = "SAME",
    dilations: Ints = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a depthwise and then a pointwise 3D convolution.

    TensorFlow has this operation only in 2D. Channel c of `x` is convolved with the kernels `c m` to `c m + m - 1`, as
    in `tf.nn.separable_conv2d`, so `middle` is the product of the last two dimensions of TensorFlow's depthwise filter.
    The same dimensions may be split as in `conv3d`.

    Args:
      x: Tensor[batch..., x, y, z, in]
      depthwise_filter: Tensor[fx, fy, fz, 1, middle], where `middle` has m channels for each channel of `x`. It may
        have the name of `in`.
      pointwise_filter: Tensor[1, 1, 1, middle, out]
      strides: strides of the depthwise convolution: an int, or one for each spatial dimension.
      padding: padding of the depthwise convolution, see `conv3d`.
      dilations: dilations of the depthwise convolution: an int, or one for each spatial dimension.
      name: name of the operations, which end in `_depthwise` and `_pointwise`.

    Returns:
      Tensor[batch..., x', y', z', out]

    Raises:
      ShapeError: the shapes or dtypes of the input, the filters and the settings do not fit.
    """
    groups = x.shape.dims[-1].size
    middle = conv3d(x, depthwise_filter, strides, padding, dilations, groups, _suffixed(name, "depthwise"))
    return conv3d(middle, pointwise_filter, name=_suffixed(name, "pointwise"))


def _suffixed(name: str | None, suffix: str) -> str:
    return f"{name or 'separable_conv'}_{suffix}"
