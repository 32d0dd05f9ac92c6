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
    dims, slices = _spatial_dims(x), mi.ops.slices_per_dimension(x)
    small = []
    for dim, step in zip(dims, _for_each(dims, stride)):
        parts, size = slices[dim.name], -(-dim.size // step)
        if step > 1 and parts > 1 and -(-size // parts) < least:
            small.append(dim.name)
    return mi.ops.gather_slices(x, small, name)


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


def _spatial_dims(x):
    return x.shape.dims[1:-1]


def _for_each(dims, value):
    """Returns a value for each dimension, given one value for all of them or a sequence."""
    return [value] * len(dims) if isinstance(value, int) else value
