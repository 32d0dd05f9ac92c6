"""Changes of resolution in a U-Net, with layouts that adapt to them.

Images have three spatial dimensions, or only x and y.
"""

import mtf_imaging as mi


def pool(x, name, gather_below=0, strides=2):
    """Divides each size of `x` by a stride with a max pool, rounds up, and gathers dimensions with small slices.

    Args:
      x: Tensor[batch, x, y, z, channels]
      name: name of the operation.
      gather_below: minimum size in voxels of a slice of the result. Dimensions with smaller slices are gathered. 0
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
    """Computes a max pool over all spatial dimensions of `x` (`mi.ops.max_pool3d`)."""
    return getattr(mi.ops, f"max_pool{len(spatial_dims(x))}d")(x, *args, **kwargs)


def spatial_dims(x):
    """Returns the spatial dimensions of Tensor[batch, x, y, z, channels]."""
    return x.shape.dims[1:-1]


def per_axis(x, sizes):
    """Returns one size for each spatial dimension of `x`, given an int, or one for x, y and z."""
    number = len(spatial_dims(x))
    return [sizes] * number if isinstance(sizes, int) else list(sizes[:number])


def divisible_slices(x, strides):
    """Returns the names of the dimensions of `x` whose stride divides their slices, and the names of the others.

    An operation with these strides then sends nothing along the dimensions of the first list. These dimensions are
    therefore gathered after it, where they have fewer voxels. The dimensions of the second list are gathered before it,
    which sends their voxels only once.

    Args:
      x: a tensor.
      strides: {dimension of `x`: stride}.
    """
    lists = [], []
    for dim, stride in strides.items():
        lists[_slice_size(x, dim) % stride != 0].append(dim.name)
    return lists


def grow(x, like, name, filters, strides=2):
    """Multiplies each size of `x` with a transposed convolution, and splits the dimensions that are split in `like`.

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
    sizes = [dim.size for dim in dims]
    x = mi.layers.ConvTranspose(filters, per_axis(x, strides), output_sizes=sizes, name=name)(x)
    return mi.ops.scatter_slices(x, late, f"{name}_scatter")


def _slice_size(x, dim):
    """Returns the number of voxels in a slice of `x` along a dimension."""
    return -(-dim.size // mi.ops.slices_per_dimension(x)[dim.name])
