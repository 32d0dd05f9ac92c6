"""Grouped convolution and its two gradients on one device, for 2 and 3 spatial dimensions.

The functions take the same arguments as the functions in `local`, but filters are `[kernel..., in / groups, out]`,
which determines the number of groups. Output channel o belongs to group `o // (out / groups)`, as in `tf.nn.conv2d`.
With one input channel per group, the convolution is depthwise.

TensorFlow's CPU kernels (2.19 to 2.22) support groups only in 2D; in float64 and without oneDNN, they have no
gradients. The depthwise kernels are 2D as well. They need equal strides, and their gradients fail with dilations.

A 3D convolution is therefore a sum of 2D convolutions, one for each tap along the first dimension, which becomes part
of the batch. For a 3^3 kernel and 32^3 voxels with 16 channels in float32 (2 cores, TensorFlow 2.21), a depthwise
convolution and each of its gradients takes 1.3 ms, a dense convolution with a block-diagonal filter 2.7 ms, one
convolution per channel 8 ms, and products of voxels with one tap at a time 16 ms. With 4 to 64 groups of 64 channels,
it is as fast as one convolution per group or up to 9 times faster. A dense convolution would also multiply an infinite
voxel with the zeros of other groups.
"""

from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.ops.conv import local
from mtf_imaging.engine.ops.conv.local import ReadRegion, Taps


def _by_group(dtype: tf.DType, inputs: int) -> bool:
    """Returns whether each group is convolved on its own, because TensorFlow has no gradient for groups."""
    return inputs > 1 and not local.has_all_gradients(dtype)


def _axis_by_tap(inputs: int, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> int | None:
    """Returns the spatial dimension whose taps are convolved one at a time; None if there is no such dimension.

    Without the last rule, depthwise convolutions with unequal strides or with dilations would be left to `Conv2D`,
    whose result (oneDNN, TensorFlow 2.21) is wrong in bfloat16 for unequal strides, two or more outputs per channel,
    and a single window along the last dimension.
    """
    if len(kernel) == 3:
        return 0 if kernel[0] > 1 or strides[0] > 1 else None
    for axis, (taps, stride, dilation) in enumerate(zip(kernel, strides, dilations)):
        if taps == 1 and stride > 1:
            return axis
        if inputs == 1 and ((taps > 1 and dilation > 1) or stride > min(strides)):
            return axis
    return None


def _joined(x: tf.Tensor) -> tf.Tensor:
    """Joins the batch and the first spatial dimension."""
    return tf.reshape(x, [-1, *x.shape[2:]])


def adjoint_filter(f: tf.Tensor, groups: int) -> tf.Tensor:
    """Returns the filter `[kernel..., out / groups, in]` of the adjoint convolution, for stride 1."""
    if groups == 1:
        return local.adjoint_filter(f)
    *kernel, inputs, outputs = f.shape.as_list()
    spatial, last = list(range(len(kernel))), len(kernel)
    f = tf.reverse(tf.reshape(f, [*kernel, inputs, groups, outputs // groups]), spatial)
    f = tf.transpose(f, [*spatial, last + 2, last + 1, last])
    return tf.reshape(f, [*kernel, outputs // groups, groups * inputs])


def _reads_outside(dtype: tf.DType, padding: str) -> bool:
    """Returns whether oneDNN's kernels that pad `x` read other memory for some shapes; see `ReadRegion`."""
    return padding == "SAME" and dtype == tf.bfloat16 and not tf.config.get_visible_devices("GPU")


def conv(x: tf.Tensor, f: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]) -> tf.Tensor:
    """Returns the grouped convolution of `x` with `f`: `[batch, outputs..., out]`."""
    *kernel, inputs, outputs = f.shape.as_list()
    groups = x.shape[-1] // inputs
    pads_itself = _reads_outside(x.dtype, padding) and local.has_idle_tap(x.shape.as_list()[1:-1], kernel, dilations)
    if region := ReadRegion.make(x.shape.as_list(), kernel, strides, padding, dilations, pads_itself):
        return conv(region.read(x), f, *region.rest)
    if groups == 1:
        return local.conv(x, f, strides, padding, dilations)
    if _by_group(x.dtype, inputs):
        pairs = zip(tf.split(x, groups, -1), tf.split(f, groups, -1))
        return tf.concat([local.conv(x, f, strides, padding, dilations) for x, f in pairs], -1)
    axis = _axis_by_tap(inputs, kernel, strides, dilations)
    if axis is not None:
        return Taps.along(axis, x.shape.as_list()[1:-1], kernel, strides, padding, dilations).conv(conv, x, f)
    if len(kernel) == 3:
        y = conv(_joined(x), f[0], strides[1:], padding, dilations[1:])
        return tf.reshape(y, [*x.shape[:2], *y.shape[1:]])
    settings = local.native(kernel, strides, padding, dilations)
    if inputs == 1:
        f = tf.reshape(f, [*kernel, groups, outputs // groups])
        return tf.raw_ops.DepthwiseConv2dNative(input=x, filter=f, **settings)
    return tf.raw_ops.Conv2D(input=x, filter=f, **settings)


def conv_input_grad(
    shape: Sequence[int], f: tf.Tensor, dy: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Returns the gradient with respect to `x`, of the given shape."""
    *kernel, inputs, outputs = f.shape.as_list()
    groups = shape[-1] // inputs
    if region := ReadRegion.make(shape, kernel, strides, padding, dilations):
        return region.spread(conv_input_grad(region.read_shape, f, dy, *region.rest))
    if groups == 1:
        return local.conv_input_grad(shape, f, dy, strides, padding, dilations)
    if _by_group(dy.dtype, inputs):
        each, pairs = [*shape[:-1], inputs], zip(tf.split(f, groups, -1), tf.split(dy, groups, -1))
        gradients = [local.conv_input_grad(each, f, dy, strides, padding, dilations) for f, dy in pairs]
        return tf.concat(gradients, -1)
    axis = _axis_by_tap(inputs, kernel, strides, dilations)
    if axis is not None:
        taps = Taps.along(axis, shape[1:-1], kernel, strides, padding, dilations)
        return taps.conv_input_grad(conv_input_grad, shape, f, dy)
    if len(kernel) == 3:
        planes = [shape[0] * shape[1], *shape[2:]]
        dx = conv_input_grad(planes, f[0], _joined(dy), strides[1:], padding, dilations[1:])
        return tf.reshape(dx, shape)
    settings = local.native(kernel, strides, padding, dilations)
    if inputs == 1:
        f = tf.reshape(f, [*kernel, groups, outputs // groups])
        return tf.raw_ops.DepthwiseConv2dNativeBackpropInput(input_sizes=shape, filter=f, out_backprop=dy, **settings)
    return tf.raw_ops.Conv2DBackpropInput(input_sizes=shape, filter=f, out_backprop=dy, **settings)


def conv_filter_grad(
    x: tf.Tensor, shape: Sequence[int], dy: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Returns the gradient with respect to the filter, of the given shape, summed over the batch."""
    *kernel, inputs, outputs = shape
    groups = x.shape[-1] // inputs
    pads_itself = _reads_outside(x.dtype, padding)
    if region := ReadRegion.make(x.shape.as_list(), kernel, strides, padding, dilations, pads_itself):
        return conv_filter_grad(region.read(x), shape, dy, *region.rest)
    if groups == 1:
        return local.conv_filter_grad(x, shape, dy, strides, padding, dilations)
    if _by_group(x.dtype, inputs):
        each, pairs = [*kernel, inputs, outputs // groups], zip(tf.split(x, groups, -1), tf.split(dy, groups, -1))
        gradients = [local.conv_filter_grad(x, each, dy, strides, padding, dilations) for x, dy in pairs]
        return tf.concat(gradients, -1)
    axis = _axis_by_tap(inputs, kernel, strides, dilations)
    if axis is not None:
        taps = Taps.along(axis, x.shape.as_list()[1:-1], kernel, strides, padding, dilations)
        return taps.conv_filter_grad(conv_filter_grad, x, shape, dy)
    if len(kernel) == 3:
        df = conv_filter_grad(_joined(x), shape[1:], _joined(dy), strides[1:], padding, dilations[1:])
        return tf.reshape(df, shape)
    settings = local.native(kernel, strides, padding, dilations)
    if inputs == 1:
        sizes = [*kernel, groups, outputs // groups]
        df = tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(input=x, filter_sizes=sizes, out_backprop=dy, **settings)
        return tf.reshape(df, shape)
    return tf.raw_ops.Conv2DBackpropFilter(input=x, filter_sizes=shape, out_backprop=dy, **settings)
