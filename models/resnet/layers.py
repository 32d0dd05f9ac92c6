"""Layers with their weights. Channels are called `channels` before and after each; the two axes keep any names.

Weights are float32 where activations have fewer bits, and cast to these where they are used.
"""

import tensorflow as tf

import mtf_imaging as mi

CHANNELS = "channels"


def conv(x, name, filters, kernel_size, stride=1):
    """`y = conv(x, filter)` without a bias, for a norm follows: one voxel for each `stride` along an axis.

    Args:
      x: Tensor[batch, height, width, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      kernel_size: pixels along each axis.
      stride: pixels from one window to the next.

    Returns:
      Tensor[batch, height / stride, width / stride, channels=filters]
    """
    window = [mi.mtf.Dimension(f"kernel_{axis}", kernel_size) for axis in ("height", "width")]
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        normal = tf.compat.v1.variance_scaling_initializer(2.0, "fan_in")  # He et al. 2015
        kernel = _variable(x, "filter", [*window, x.shape.dims[-1], outputs], normal)
        y = mi.ops.conv2d(x, kernel, strides=stride, name=name)
    return mi.mtf.rename_dimension(y, outputs.name, CHANNELS)


def dense(x, name, classes):
    """`y = x weights + bias`: Tensor[batch, channels] -> Tensor[batch, classes]."""
    outputs = mi.mtf.Dimension("classes", classes)
    with tf.compat.v1.variable_scope(name):
        weights = _variable(x, "weights", [x.shape.dims[-1], outputs], tf.compat.v1.glorot_uniform_initializer())
        y = mi.mtf.einsum([x, weights], output_shape=mi.mtf.Shape([*x.shape.dims[:-1], outputs]))
        return y + _variable(x, "bias", [outputs], tf.zeros_initializer())


def mean_over_image(x):
    """The mean of each channel over the whole image, in float32 at least; slices are summed, then added.

    Tensor[batch, height, width, channels] -> Tensor[batch, channels].
    """
    x = mi.mtf.cast(x, mi.ops.master_dtype(x.dtype))
    return mi.mtf.reduce_mean(x, output_shape=mi.mtf.Shape([*x.shape.dims[:-3], x.shape.dims[-1]]))


def gather_small_slices(x, name, stride, least):
    """Gathers the axes of which a stride would leave slices of fewer than `least` pixels, or no equal ones.

    Args:
      x: Tensor[batch, height, width, channels]
      name: name of the operation.
      stride: of the operation that is next.
      least: pixels; 0 gathers nothing.

    Returns:
      The same tensor, its gathered axes under the names that `mi.ops.gather_slices` gives.
    """
    small = []
    for dim in x.shape.dims[-3:-1]:
        parts, size = mi.ops.slices_per_dimension(x)[dim.name], -(-dim.size // stride)
        if least and parts > 1 and (size % parts or size // parts < least):
            small.append(dim.name)
    return mi.ops.gather_slices(x, small, name)


def _variable(x, name, dims, initializer):
    """A variable, in the dtype of the activations `x`."""
    dtype = mi.ops.master_dtype(x.dtype)
    variable = mi.mtf.get_variable(x.mesh, name, mi.mtf.Shape(dims), dtype=dtype, initializer=initializer)
    return mi.mtf.cast(variable, x.dtype)
