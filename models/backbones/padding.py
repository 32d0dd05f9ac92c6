"""The padding of convolutions and pools of images."""

PADDINGS = ("fixed", "same")


def window_padding(padding, kernel_size, stride, dilation=1):
    """Returns the padding of a convolution or a pool of images, as `mi.ops.conv2d` takes it.

    Args:
      padding: "same" is TensorFlow's "SAME", which depends on the size of the image. "fixed" does not: windows with a
        stride have `(extent - 1) // 2` zeros before the image and the rest after it, where `extent` is the size of the
        dilated kernel. Published ResNets and Xceptions have this padding. With an even size and a stride of 2, it is
        (1, 1) instead of (0, 1) for a 3 x 3 kernel. Without a stride, both paddings are equal.
      kernel_size: size of the kernel in pixels.
      stride: distance between neighboring windows in pixels.
      dilation: distance between neighboring pixels of a window.
    """
    if padding == "same" or stride == 1:
        return "SAME"
    zeros = (kernel_size - 1) * dilation
    return [(zeros // 2, zeros - zeros // 2)] * 2
