"""Changes of values that leave voxels where they are."""

import math

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws

_LESION = 2


def shift_classes(image, labels, shift: float, sd: float, draws: Draws):
    """Multiplies lesions by a factor of their own, and all else by another, so that their contrast varies.

    Lesions by 1 + a with a of N(-shift, sd), so that they are darkened more often than not; what is no lesion by 1 + b
    with b of N(shift, sd). Both are cut off at two standard deviations. (Hou et al. 2019 mean this; the code that they
    released has the two masks exchanged.)

    Args:
      image: Tensor[x, y, z, channels] float32.
      labels: Tensor[x, y, z], 2 for lesion.
      shift, sd: mean and standard deviation.
      draws: of the sample.

    Returns:
      The image.
    """
    of_lesions = 1 + draws.normal("class_shift/lesion", sd, -shift)
    of_others = 1 + draws.normal("class_shift/other", sd, shift)
    return image * tf.where(labels == _LESION, of_lesions, of_others)[..., tf.newaxis]


def apply_gamma(image, gamma: float, draws: Draws):
    """`image ** g`, with log(g) drawn evenly, so that g is as often above 1 as below, from 1 / (1 + gamma)..1 + gamma.

    Args:
      image: Tensor[...] float32 in 0..1.
      gamma: how far the exponent may be from 1.
      draws: of the sample.

    Returns:
      The image, in 0..1.
    """
    widest = math.log1p(gamma)
    return image ** tf.exp(draws.uniform("gamma", -widest, widest))
