"""Gathers dimensions where slices become small, and splits them again, in networks for images and clips.

The spatial dimensions between the batch and the channels, height and width or time, height and width, may have any
names.
"""

import mtf_imaging as mi


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
    dims = x.shape.dims[1:-1]
    strides = dict(zip(dims, [stride] * len(dims) if isinstance(stride, int) else stride))

    def is_small(dim, parts):
        size = -(-dim.size // strides[dim])
        return strides[dim] > 1 and -(-size // parts) < least

    return gather_where(x, name, is_small)


def gather_where(x, name, is_small):
    """Gathers the split dimensions of Tensor[batch, height, width, channels] with small slices.

    Args:
      x: the tensor.
      name: name of the operation.
      is_small: a function (dimension, number of its slices) -> whether its slices are small.
    """
    slices = mi.ops.slices_per_dimension(x)
    split = [dim for dim in x.shape.dims[1:-1] if slices[dim.name] > 1]
    return mi.ops.gather_slices(x, [dim.name for dim in split if is_small(dim, slices[dim.name])], name)


def split_like(x, like, name):
    """Splits the dimensions that are gathered in `x` but not in `like` again.

    Args:
      x: Tensor[batch, height, width, channels]
      like: Tensor[batch, height, width, channels], of any sizes.
      name: name of the operation.

    Returns:
      The tensor `x` with the dimension names of `like`.
    """
    pairs = zip(x.shape.dims[1:-1], like.shape.dims[1:-1])
    return mi.ops.scatter_slices(x, [want.name for have, want in pairs if have.name != want.name], name)
