"""The stems of residual networks, which reduce an image to a quarter of its size."""

import mtf_imaging as mi
from mtf_imaging.models.backbones.padding import window_padding


def stem_7x7(conv_norm, image, filters, pool_padding="same"):
    """Computes a 7 x 7 convolution with stride 2, and the pool: the stem of He et al. 2016.

    Args:
      conv_norm: a `ConvNorm`.
      image: Tensor[batch, height, width, channels]
      filters: number of channels of the result.
      pool_padding: "same" or "fixed", see `padding.window_padding`.

    Returns:
      Tensor[batch, height / 4, width / 4, channels=filters], with sizes rounded up.
    """
    x = conv_norm.gather(image, "stem", 2)
    return _pool(conv_norm, mi.ops.relu(conv_norm(x, "stem", filters, 7, 2)), pool_padding)


def stem_v1_beta(conv_norm, image, filters, pool_padding="same"):
    """Computes three 3 x 3 convolutions, the first with stride 2 and the last with twice the filters, and the pool.

    Args:
      conv_norm, image, pool_padding: see `stem_7x7`.
      filters: number of channels of the first two convolutions.

    Returns:
      Tensor[batch, height / 4, width / 4, channels=2 filters], with sizes rounded up.
    """
    x = conv_norm.gather(image, "stem", 2)
    for name, number, stride in (("stem0", filters, 2), ("stem1", filters, 1), ("stem2", 2 * filters, 1)):
        x = mi.ops.relu(conv_norm(x, name, number, 3, stride))
    return _pool(conv_norm, x, pool_padding)


STEMS = {"7x7": stem_7x7, "v1-beta": stem_v1_beta}


def _pool(conv_norm, x, padding):
    return mi.ops.max_pool2d(conv_norm.gather(x, "pool", 2), 3, 2, window_padding(padding, 3, 2), name="pool")
