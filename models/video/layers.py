"""The convolution of R(2+1)D, with a padding that may be causal."""

from mtf_imaging.models.backbones import layers


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
    return layers.conv(x, name, filters, kernel_size, strides, padding=padding)
