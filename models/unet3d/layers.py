"""Convolutions with their weights. Channels are called `channels` before and after every layer.

Weights are float32 where activations have fewer bits, and cast to these where they are used: so their gradients are
float32, too.
"""

import tensorflow as tf

import mtf_imaging as mi

CHANNELS = "channels"
_AXES = ("x", "y", "z")


def conv(x, name, filters, kernel_size=3, use_bias=True, output_name=CHANNELS):
    """`y = conv(x, filter) + bias`, of the size of `x`.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      kernel_size: voxels along each axis.
      use_bias: whether there is a bias.
      output_name: name of the result's channel dimension.

    Returns:
      Tensor[batch, x, y, z, `output_name`=filters]
    """
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        kernel = _weights(x, [*_kernel(kernel_size), x.shape.dims[-1], outputs], "fan_in", 2.0)
        y = mi.ops.conv3d(x, kernel, name=name)
        return _named(y, outputs, use_bias, output_name)


def conv_transpose(x, name, filters, kernel_size=2):
    """`y = transposed conv(x, filter) + bias`, `kernel_size` times the size of `x` along each axis.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      kernel_size: voxels along each axis, and the stride.

    Returns:
      Tensor[batch, x', y', z', channels=filters]
    """
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        # Windows do not overlap: each voxel is the sum of one tap of every input channel, which is the fan. The
        # initializer counts all taps (its fan_out: the filter's last dimension is the input), so they are divided out.
        kernel = _weights(x, [*_kernel(kernel_size), outputs, x.shape.dims[-1]], "fan_out", 2.0 * kernel_size**3)
        y = mi.ops.conv3d_transpose(x, kernel, strides=kernel_size, name=name)
        return _named(y, outputs, True, CHANNELS)


def pool(x, name, gather_below=0):
    """Half the size of `x` along each axis, by a max pool; small slices of it are gathered.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: name of the operation.
      gather_below: voxels along an axis, slices of less than which are gathered, and those that cannot be equal, too;
        0 gathers none.

    Returns:
      Tensor[batch, x / 2, y / 2, z / 2, channels], its gathered axes under the name that `mi.ops.gather_slices` gives.
    """
    early, late = [], []  # Gathered late, an eighth of the voxels is sent; but a pool makes no slices of half a voxel.
    for dim in x.shape.dims[-4:-1] if gather_below else []:
        parts, size = mi.ops.slices_per_dimension(x)[dim.name], dim.size // 2
        if parts > 1 and (size % parts or size // parts < gather_below):
            (early if size % parts else late).append(dim.name)
    x = mi.ops.gather_slices(x, early, f"{name}_gather")
    x = mi.ops.max_pool3d(x, 2, 2, name=name)
    return mi.ops.gather_slices(x, late, f"{name}_gather")


def grow(x, like, name, filters):
    """Double the size of `x`, by a transposed convolution; gathered axes are split again if those of `like` are.

    Args:
      x: Tensor[batch, x, y, z, channels], what `pool` made of `like`, or what came of that.
      like: Tensor[batch, 2 x, 2 y, 2 z, channels]
      name: scope of the weights.
      filters: number of channels of the result.

    Returns:
      Tensor[batch, 2 x, 2 y, 2 z, channels=filters], its axes under the names of those of `like`.
    """
    early, late = [], []  # as in `pool`, but the other way
    for dim, now in zip(like.shape.dims[-4:-1], x.shape.dims[-4:-1]):
        if dim.name != now.name:
            (late if now.size % mi.ops.slices_per_dimension(like)[dim.name] else early).append(dim.name)
    x = mi.ops.scatter_slices(x, early, f"{name}_scatter")
    x = conv_transpose(x, name, filters)
    return mi.ops.scatter_slices(x, late, f"{name}_scatter")


def concat_channels(tensors):
    """Joins Tensors[batch, x, y, z, channels] along `channels`, which may be split: under another name."""
    renamed = [mi.mtf.rename_dimension(x, CHANNELS, "joined") for x in tensors]
    return mi.mtf.rename_dimension(mi.mtf.concat(renamed, "joined"), "joined", CHANNELS)


def _kernel(size):
    return [mi.mtf.Dimension(f"kernel_{axis}", size) for axis in _AXES]


def _weights(x, dims, mode, scale):
    """He-normal weights (He et al. 2015): variance 2 / fan."""
    return _variable(x, "filter", dims, tf.compat.v1.variance_scaling_initializer(scale, mode))


def _named(y, dim, use_bias, output_name):
    """Renames the channels `dim` of `y`, and adds a bias along them."""
    y = mi.mtf.rename_dimension(y, dim.name, output_name)
    if not use_bias:
        return y
    return y + _variable(y, "bias", y.shape.dims[-1:], tf.zeros_initializer())


def _variable(x, name, dims, initializer):
    """A variable, in the dtype of the activations `x`."""
    dtype = mi.ops.master_dtype(x.dtype)
    variable = mi.mtf.get_variable(x.mesh, name, mi.mtf.Shape(dims), dtype=dtype, initializer=initializer)
    return mi.mtf.cast(variable, x.dtype)
