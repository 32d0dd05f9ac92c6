"""Changes intensities without moving voxels."""

import math

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws

_LESION = 2


def shift_classes(image, labels, shift: float, sd: float, draws: Draws):
    """Varies the contrast of lesions: multiplies lesions by one factor and all other voxels by another.

    The factor of lesions is 1 + a with a drawn from N(-shift, sd), so lesions are usually darkened. The factor of other
    voxels is 1 + b with b drawn from N(shift, sd). Both draws are clipped to two standard deviations. (Hou et al. 2019
    describe this change; their released code swaps the two masks.)

    Args:
      image: Tensor[x, y, z, channels] float32.
      labels: Tensor[x, y, z], 2 for lesion.
      shift, sd: mean and standard deviation of the draws.
      draws: random numbers of the sample.

    Returns:
      The changed image.
    """
    of_lesions = 1 + draws.normal("class_shift/lesion", sd, -shift)
    of_others = 1 + draws.normal("class_shift/other", sd, shift)
    return image * tf.where(labels == _LESION, of_lesions, of_others)[..., tf.newaxis]


def apply_gamma(image, gamma: float, draws: Draws):
    """Returns `image ** g` with a random exponent g from 1 / (1 + gamma)..1 + gamma.

    The logarithm of g is drawn uniformly, so g is above 1 as often as below.

    Args:
      image: Tensor[...] float32 in 0..1.
      gamma: range of the exponent, as above.
      draws: random numbers of the sample.

    Returns:
      The changed image, in 0..1.
    """
    widest = math.log1p(gamma)
    return image ** tf.exp(draws.uniform("gamma", -widest, widest))
