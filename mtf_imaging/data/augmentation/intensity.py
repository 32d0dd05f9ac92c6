"""Changes intensities without moving voxels."""

import math

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.rounding import add, each_alike
from mtf_imaging.data.intensities.value_ranges import WINDOWED, ValueRanges

_LESION = 2


def shift_classes(image, labels, shift: float, sd: float, draws: Draws):
    """Varies lesion contrast: multiplies lesion voxels by one factor and all other voxels by another.

    The lesion factor is 1 + a with a drawn from N(-shift, sd), so lesions are usually darkened. The factor for other
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


def apply_gamma(image, gamma: float, draws: Draws, ranges: ValueRanges = WINDOWED):
    """Raises each channel, mapped to 0..1, to a random power g from 1 / (1 + gamma)..1 + gamma.

    The logarithm of g is drawn uniformly, so g is above 1 as often as below. Each channel gets its own g.

    Args:
      image: Tensor[..., channels] float32.
      gamma: range of the exponent, as above.
      draws: random numbers of the sample.
      ranges: the bounds of the values; `lowest` to `highest` is mapped to 0..1.

    Returns:
      The changed image, within the same bounds.
    """
    low, high = ranges.lowest, ranges.highest
    if ranges is not WINDOWED:
        high = tf.where(high > low, high, low + 1.0)  # avoids a division by 0 in constant channels
    widest = math.log1p(gamma)
    powers = tf.unstack(tf.exp(draws.uniform("gamma", -widest, widest, [image.shape[3]])))
    image = (tf.clip_by_value(image, low, high) - low) / (high - low)
    channels = zip(tf.unstack(image, axis=3), powers, strict=True)
    image = tf.stack([each_alike(lambda x, power=power: x**power, channel) for channel, power in channels], 3)
    return add(image * (high - low), low)
