"""Layers with their weights, for images and clips.

The first dimension is the batch, and the last one is called `channels` before and after each layer. The spatial
dimensions between them, height and width or time, height and width, may have any names. Weights are float32 or larger,
and are cast to the dtype of the activations when they are used.
"""

import tensorflow as tf

import mtf_imaging as mi

CHANNELS = "channels"
AXES = ("time", "height", "width")  # the last two are those of an image
PADDINGS = ("fixed", "same")


def conv(x, name, filters, kernel_size, stride=1, dilation=1, padding="same"):
    """Computes `y = conv(x, filter)`, without a bias because a norm follows.

    Args:
      x: Tensor[batch, height, width, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      kernel_size: size of the kernel in pixels, for all spatial dimensions or for each.
      stride: distance between two windows in pixels, for all spatial dimensions or for each.
      dilation: distance between two pixels of a window.
      padding: "fixed" or "same", see `window_padding`; or the zeros before and after each spatial dimension.

    Returns:
      Tensor[batch, height / stride, width / stride, channels=filters], with sizes rounded up.
    """
    outputs = mi.mtf.Dimension("filters", filters)
    operation = {2: mi.ops.conv2d, 3: mi.ops.conv3d}[len(_spatial_dims(x))]
    with tf.compat.v1.variable_scope(name):
        kernel = variable(x, "filter", [*kernel_dims(x, kernel_size), x.shape.dims[-1], outputs], _he_normal())
        pads = window_padding(padding, kernel_size, stride, dilation)
        y = operation(x, kernel, strides=stride, padding=pads, dilations=dilation, name=name)
    return mi.mtf.rename_dimension(y, outputs.name, CHANNELS)


def depthwise_conv(x, name, kernel_size, stride=1, dilation=1, padding="same"):
    """Convolves each channel with a kernel of its own, without a bias because a norm follows.

    Args:
      x: Tensor[batch, height, width, channels]
      name, kernel_size, stride, dilation, padding: see `conv`.

    Returns:
      Tensor[batch, height / stride, width / stride, channels], with sizes rounded up.
    """
    channels, one = x.shape.dims[-1], mi.mtf.Dimension("channels_per_group", 1)
    with tf.compat.v1.variable_scope(name):
        kernel = variable(x, "filter", [*kernel_dims(x, kernel_size), one, channels], _he_normal())
        pads = window_padding(padding, kernel_size, stride, dilation)
        return mi.ops.conv2d(x, kernel, stride, pads, dilation, groups=channels.size, name=name)


def window_padding(padding, kernel_size, stride, dilation=1):
    """Returns the padding of a convolution, as `mi.ops.conv2d` takes it. Pairs of numbers are returned as they are.

    Args:
      padding: "same" is TensorFlow's "SAME", which depends on the size of the image. "fixed" does not: windows with a
        stride have `(extent - 1) // 2` zeros before the image and the rest after it, where `extent` is the size of the
        dilated kernel. Published ResNets and Xceptions have this padding. With an even size and a stride of 2, it is
        (1, 1) instead of (0, 1) for a 3 x 3 kernel. Without a stride, both are equal.
      kernel_size, stride, dilation: see `conv`.
    """
    if not isinstance(padding, str):
        return padding
    if padding == "same" or stride == 1:
        return "SAME"
    zeros = (kernel_size - 1) * dilation
    return [(zeros // 2, zeros - zeros // 2)] * 2


def dense(x, name, classes):
    """Computes `y = x weights + bias`: Tensor[batch, channels] -> Tensor[batch, classes]."""
    outputs = mi.mtf.Dimension("classes", classes)
    with tf.compat.v1.variable_scope(name):
        weights = variable(x, "weights", [x.shape.dims[-1], outputs], tf.compat.v1.glorot_uniform_initializer())
        y = mi.mtf.einsum([x, weights], output_shape=mi.mtf.Shape([*x.shape.dims[:-1], outputs]))
        return y + variable(x, "bias", [outputs], tf.zeros_initializer())


def relu(x):
    """Computes `max(x, 0)`."""
    return mi.ops.leaky_relu(x, 0.0)


def mean_over_image(x):
    """Computes the mean of each channel over the whole image or clip, in float32 or larger.

    Tensor[batch, height, width, channels] -> Tensor[batch, channels].
    """
    batch, *_, channels = x.shape.dims
    x = mi.mtf.cast(x, mi.ops.master_dtype(x.dtype))
    return mi.mtf.reduce_mean(x, output_shape=mi.mtf.Shape([batch, channels]))


def gather_small_slices(x, name, stride, least):
    """Gathers the dimensions whose slices would be smaller than `least` pixels after a strided operation.

    Args:
      x: Tensor[batch, height, width, channels]
      name: name of the operation.
      stride: stride of the next operation, for all spatial dimensions or for each. Dimensions with stride 1 are not
        gathered.
      least: minimum size of a slice in pixels. 0 gathers no dimension.

    Returns:
      The tensor, in which gathered dimensions have the names of `mi.ops.gather_slices`.
    """
    dims, slices = _spatial_dims(x), mi.ops.slices_per_dimension(x)
    small = []
    for dim, step in zip(dims, _for_each(dims, stride)):
        parts, size = slices[dim.name], -(-dim.size // step)
        if step > 1 and parts > 1 and -(-size // parts) < least:
            small.append(dim.name)
    return mi.ops.gather_slices(x, small, name)


def split_like(x, like, name):
    """Splits the dimensions of `x` again that are gathered in `x` but not in `like`.

    Args:
      x: Tensor[batch, height, width, channels]
      like: Tensor[batch, height, width, channels], of any sizes.
      name: name of the operation.

    Returns:
      The tensor `x` with the dimension names of `like`.
    """
    pairs = zip(x.shape.dims[1:-1], like.shape.dims[1:-1])
    return mi.ops.scatter_slices(x, [want.name for have, want in pairs if have.name != want.name], name)


def kernel_dims(x, size):
    """Returns the spatial dimensions of the kernel of a convolution.

    Args:
      x: the input of the convolution.
      size: size of the kernel in pixels, for all spatial dimensions or for each.
    """
    axes = AXES[-len(_spatial_dims(x)) :]
    return [mi.mtf.Dimension(f"kernel_{axis}", pixels) for axis, pixels in zip(axes, _for_each(axes, size))]


def variable(x, name, dims, initializer):
    """Creates a variable, and casts it to the dtype of the activations `x`."""
    dtype = mi.ops.master_dtype(x.dtype)
    master = mi.mtf.get_variable(x.mesh, name, mi.mtf.Shape(dims), dtype=dtype, initializer=initializer)
    return mi.mtf.cast(master, x.dtype)


def _spatial_dims(x):
    return x.shape.dims[1:-1]


def _for_each(dims, value):
    """Returns a value for each dimension, given one value for all of them or a sequence."""
    return [value] * len(dims) if isinstance(value, int) else value


def _he_normal():
    return tf.compat.v1.variance_scaling_initializer(2.0, "fan_in")  # He et al. 2015
