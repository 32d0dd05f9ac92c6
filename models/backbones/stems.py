"""The stems of residual networks, which reduce an image to a quarter of its size."""

import mtf_imaging as mi
from mtf_imaging.models.backbones.layers import relu


def stem_7x7(conv_norm, image, filters):
    """Computes a 7 x 7 convolution with stride 2, and the pool: the stem of He et al. 2016.

    Args:
      conv_norm: a `ConvNorm`.
      image: Tensor[batch, height, width, channels]
      filters: number of channels of the result.

    Returns:
      Tensor[batch, height / 4, width / 4, channels=filters], with sizes rounded up.
    """
    x = conv_norm.gather(image, "stem", 2)
    return _pool(conv_norm, relu(conv_norm(x, "stem", filters, 7, 2)))


def stem_v1_beta(conv_norm, image, filters):
    """Computes three 3 x 3 convolutions, the first with stride 2 and the last with twice the filters, and the pool.

    Args:
      conv_norm, image: see `stem_7x7`.
      filters: number of channels of the first two convolutions.

    Returns:
      Tensor[batch, height / 4, width / 4, channels=2 filters], with sizes rounded up.
    """
    x = conv_norm.gather(image, "stem", 2)
    for name, number, stride in (("stem0", filters, 2), ("stem1", filters, 1), ("stem2", 2 * filters, 1)):
        x = relu(conv_norm(x, name, number, 3, stride))
    return _pool(conv_norm, x)


STEMS = {"7x7": stem_7x7, "v1-beta": stem_v1_beta}


def _pool(conv_norm, x):
    return mi.ops.max_pool2d(conv_norm.gather(x, "pool", 2), 3, 2, "SAME", name="pool")
