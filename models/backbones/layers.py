"""The padding of windows, and the dimensions that are gathered and split again, in networks for images and clips.

The first dimension is the batch, and the last one is called `channels`. The spatial dimensions between them, height and
width or time, height and width, may have any names.
"""

import mtf_imaging as mi

PADDINGS = ("fixed", "same")


def window_padding(padding, kernel_size, stride, dilation=1):
    """Returns the padding of a convolution or a pool of images, as `mi.ops.conv2d` takes it.

    Args:
      padding: "same" is TensorFlow's "SAME", which depends on the size of the image. "fixed" does not: windows with a
        stride have `(extent - 1) // 2` zeros before the image and the rest after it, where `extent` is the size of the
        dilated kernel. Published ResNets and Xceptions have this padding. With an even size and a stride of 2, it is
        (1, 1) instead of (0, 1) for a 3 x 3 kernel. Without a stride, both are equal.
      kernel_size: size of the kernel in pixels.
      stride: distance between two windows in pixels.
      dilation: distance between two pixels of a window.
    """
    if padding == "same" or stride == 1:
        return "SAME"
    zeros = (kernel_size - 1) * dilation
    return [(zeros // 2, zeros - zeros // 2)] * 2


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


def _spatial_dims(x):
    return x.shape.dims[1:-1]


def _for_each(dims, value):
    """Returns a value for each dimension, given one value for all of them or a sequence."""
    return [value] * len(dims) if isinstance(value, int) else value
