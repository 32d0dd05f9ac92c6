"""Layers with their weights.

Images have three spatial dimensions, or only x and y. The channel dimension is called `channels` before and after every
layer. Weights are float32 or larger, and are cast to the dtype of the activations when they are used. Their gradients
are therefore float32 or larger, too.
"""

import math

import tensorflow as tf

import mtf_imaging as mi

CHANNELS = "channels"
_AXES = ("x", "y", "z")


def conv(x, name, filters, kernel_size=3, use_bias=True, output_name=CHANNELS, biases=None):
    """Computes `y = conv(x, filter) + bias` with "SAME" padding.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      kernel_size: size of the kernel in voxels along each dimension: an int, or one for x, y and z.
      use_bias: whether to add a bias.
      output_name: name of the result's channel dimension.
      biases: initial value of the bias of each channel; None for 0.

    Returns:
      Tensor[batch, x, y, z, `output_name`=filters]
    """
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        kernel = _weights(x, [*_kernel(x, kernel_size), x.shape.dims[-1], outputs], "fan_in", 2.0)
        y = _operation(x, "conv{}d")(x, kernel, name=name)
        return _rename_and_bias(y, outputs, use_bias, output_name, biases)


def conv_transpose(x, name, filters, sizes, kernel_size=2):
    """Computes `y = transposed conv(x, filter) + bias` with a stride of `kernel_size`.

    This is the adjoint of a convolution that divides sizes by `kernel_size` and rounds them up. With a `kernel_size` of
    2, a size of 4 can therefore become 7 or 8.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      sizes: sizes of the result along x, y and z; divided by `kernel_size` and rounded up, they are the sizes of `x`.
      kernel_size: kernel size and stride in voxels: an int, or one for x, y and z.

    Returns:
      Tensor[batch, *sizes, channels=filters]
    """
    outputs = mi.mtf.Dimension("filters", filters)
    with tf.compat.v1.variable_scope(name):
        # Windows do not overlap, so each voxel is a sum over one tap of every input channel: the fan is the number of
        # input channels. The initializer's "fan_out" also counts all taps; the scale compensates for them.
        strides = per_axis(x, kernel_size)
        kernel_dims = [*_kernel(x, kernel_size), outputs, x.shape.dims[-1]]
        kernel = _weights(x, kernel_dims, "fan_out", 2.0 * math.prod(strides))
        y = _operation(x, "conv{}d_transpose")(x, kernel, strides=strides, output_sizes=sizes, name=name)
        return _rename_and_bias(y, outputs, True, CHANNELS)


def pool(x, name, gather_below=0, strides=2):
    """Divides each size of `x` by a stride with a max pool, rounded up, and gathers dimensions with small slices.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: name of the operation.
      gather_below: minimum size of a slice of the result in voxels. Dimensions with smaller slices are gathered. 0
        gathers no dimension.
      strides: sizes and strides of the windows: an int, or one for x, y and z. A dimension with a stride of 1 keeps its
        size and is not gathered.

    Returns:
      Tensor[batch, x / 2, y / 2, z / 2, channels] for strides of 2, with sizes rounded up, in which gathered dimensions
      have the names of `mi.ops.gather_slices`.
    """
    sizes = per_axis(x, strides)
    small = {}
    for dim, stride in zip(spatial_dims(x), sizes):
        is_split = gather_below and mi.ops.slices_per_dimension(x)[dim.name] > 1
        if is_split and stride > 1 and -(-_slice_size(x, dim) // stride) < gather_below:
            small[dim] = stride
    late, early = divisible_slices(x, small)
    x = mi.ops.gather_slices(x, early, f"{name}_gather")
    x = max_pool(x, sizes, sizes, "SAME", name=name)
    return mi.ops.gather_slices(x, late, f"{name}_gather")


def max_pool(x, *args, **kwargs):
    """Computes the max pool of as many dimensions as `x` has (`mi.ops.max_pool3d`)."""
    return _operation(x, "max_pool{}d")(x, *args, **kwargs)


def spatial_dims(x):
    """Returns the spatial dimensions of Tensor[batch, x, y, z, channels]."""
    return x.shape.dims[1:-1]


def per_axis(x, sizes):
    """Returns one size for each spatial dimension of `x`, given an int, or one for x, y and z."""
    number = len(spatial_dims(x))
    return [sizes] * number if isinstance(sizes, int) else list(sizes[:number])


def divisible_slices(x, strides):
    """Returns the names of the dimensions of `x` whose slices their strides divide, and the names of the others.

    An operation with these strides then sends nothing along the dimensions of the first list. They are therefore
    gathered after it, where they have fewer voxels. Those of the second list are gathered before it, which sends their
    voxels once.

    Args:
      x: a tensor.
      strides: {dimension of `x`: stride}.
    """
    lists = [], []
    for dim, stride in strides.items():
        lists[_slice_size(x, dim) % stride != 0].append(dim.name)
    return lists


def grow(x, like, name, filters, strides=2):
    """Multiplies each size of `x` with a transposed convolution, and splits dimensions again that are split in `like`.

    Args:
      x: Tensor[batch, x / 2, y / 2, z / 2, channels] with sizes rounded up, computed from the result of `pool(like)`.
      like: Tensor[batch, x, y, z, channels]
      name: scope of the weights.
      filters: number of channels of the result.
      strides: the strides of the pool: an int, or one for x, y and z.

    Returns:
      Tensor[batch, x, y, z, channels=filters], with the dimension names of `like`.
    """
    dims = spatial_dims(like)
    rows = zip(dims, spatial_dims(x), per_axis(x, strides))
    # the reverse of `pool`
    early, late = divisible_slices(like, {dim: stride for dim, now, stride in rows if dim.name != now.name})
    x = mi.ops.scatter_slices(x, early, f"{name}_scatter")
    x = conv_transpose(x, name, filters, [dim.size for dim in dims], strides)
    return mi.ops.scatter_slices(x, late, f"{name}_scatter")


def concat_channels(tensors):
    """Concatenates Tensors[batch, x, y, z, channels] along `channels`."""
    # Concatenation needs whole dimensions, so the channels get a name that no layout rule mentions.
    renamed = [mi.mtf.rename_dimension(x, CHANNELS, "joined") for x in tensors]
    return mi.mtf.rename_dimension(mi.mtf.concat(renamed, "joined"), "joined", CHANNELS)


def _slice_size(x, dim):
    """Returns the number of voxels in a slice of a dimension of `x`."""
    return -(-dim.size // mi.ops.slices_per_dimension(x)[dim.name])


def _operation(x, name):
    """Returns the operation of `mi.ops` for the spatial dimensions of `x`, given "conv{}d"."""
    return getattr(mi.ops, name.format(len(spatial_dims(x))))


def _kernel(x, size):
    return [mi.mtf.Dimension(f"kernel_{axis}", number) for axis, number in zip(_AXES, per_axis(x, size))]


def _weights(x, dims, mode, scale):
    """Creates He-normal weights (He et al. 2015), with a variance of 2 / fan."""
    return _variable(x, "filter", dims, tf.compat.v1.variance_scaling_initializer(scale, mode))


def _rename_and_bias(y, dim, use_bias, output_name, biases=None):
    """Renames the channel dimension `dim` of `y`, and adds a bias."""
    y = mi.mtf.rename_dimension(y, dim.name, output_name)
    if not use_bias:
        return y
    initializer = tf.zeros_initializer() if biases is None else tf.constant_initializer(list(biases))
    return mi.ops.add_bias(y, _variable(y, "bias", y.shape.dims[-1:], initializer))


def _variable(x, name, dims, initializer):
    """Creates a variable, and casts it to the dtype of the activations `x`."""
    dtype = mi.ops.master_dtype(x.dtype)
    variable = mi.mtf.get_variable(x.mesh, name, mi.mtf.Shape(dims), dtype=dtype, initializer=initializer)
    return mi.mtf.cast(variable, x.dtype)
