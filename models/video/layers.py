"""Layers with their weights.

The channel dimension is called `channels` before and after each layer. The other dimensions may have any names.
Weights are float32 or larger, and are cast to the dtype of the activations when they are used.
"""

import tensorflow as tf

import mtf_imaging as mi

CHANNELS = "channels"
AXES = ("time", "height", "width")


def conv(x, name, filters, kernel_size, strides, causal=False):
    """Computes `y = conv(x, filter)`, without a bias because a norm follows.

    A kernel of k voxels gets `(k - 1) // 2` zeros before and `k // 2` zeros after each dimension, for every stride.
    TensorFlow's SAME padding depends on the size of the clip where the stride is above 1.

    Args:
      x: Tensor[batch, time, height, width, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      kernel_size: size of the kernel along time, height and width.
      strides: distance between two windows along time, height and width.
      causal: whether all zeros along the time come before the clip, so that a window ends with the present frame.

    Returns:
      Tensor[batch, time / stride, height / stride, width / stride, channels=filters], with sizes rounded up for odd
      kernels.
    """
    padding = [((size - 1) // 2, size // 2) for size in kernel_size]
    if causal:
        padding[0] = (kernel_size[0] - 1, 0)
    window = [mi.mtf.Dimension(f"kernel_{axis}", size) for axis, size in zip(AXES, kernel_size)]
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        normal = tf.compat.v1.variance_scaling_initializer(2.0, "fan_in")  # He et al. 2015
        kernel = _variable(x, "filter", [*window, x.shape.dims[-1], outputs], normal)
        y = mi.ops.conv3d(x, kernel, strides=strides, padding=padding, name=name)
    return mi.mtf.rename_dimension(y, outputs.name, CHANNELS)


def dense(x, name, classes):
    """Computes `y = x weights + bias`: Tensor[batch, channels] -> Tensor[batch, classes]."""
    outputs = mi.mtf.Dimension("classes", classes)
    with tf.compat.v1.variable_scope(name):
        weights = _variable(x, "weights", [x.shape.dims[-1], outputs], tf.compat.v1.glorot_uniform_initializer())
        y = mi.mtf.einsum([x, weights], output_shape=mi.mtf.Shape([*x.shape.dims[:-1], outputs]))
        return y + _variable(x, "bias", [outputs], tf.zeros_initializer())


def mean_over_clip(x):
    """Computes the mean of each channel over all frames and pixels, in float32 or larger.

    Tensor[batch, time, height, width, channels] -> Tensor[batch, channels].
    """
    x = mi.mtf.cast(x, mi.ops.master_dtype(x.dtype))
    return mi.mtf.reduce_mean(x, output_shape=mi.mtf.Shape([*x.shape.dims[:-4], x.shape.dims[-1]]))


def gather_small_slices(x, name, strides, least):
    """Gathers the dimensions whose slices would be smaller than `least` frames or pixels after a strided operation.

    Args:
      x: Tensor[batch, time, height, width, channels]
      name: name of the operation.
      strides: strides of the next operation along time, height and width. Dimensions with stride 1 are not gathered.
      least: minimum size of a slice in frames or pixels. 0 gathers no dimension.

    Returns:
      The tensor, in which gathered dimensions have the names of `mi.ops.gather_slices`.
    """
    small = []
    for dim, stride in zip(x.shape.dims[-4:-1], strides):
        parts, size = mi.ops.slices_per_dimension(x)[dim.name], -(-dim.size // stride)
        if stride > 1 and parts > 1 and -(-size // parts) < least:
            small.append(dim.name)
    return mi.ops.gather_slices(x, small, name)


def _variable(x, name, dims, initializer):
    """Creates a variable, and casts it to the dtype of the activations `x`."""
    dtype = mi.ops.master_dtype(x.dtype)
    variable = mi.mtf.get_variable(x.mesh, name, mi.mtf.Shape(dims), dtype=dtype, initializer=initializer)
    return mi.mtf.cast(variable, x.dtype)
