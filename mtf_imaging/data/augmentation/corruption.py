"""Blanks parts of the body, so that a network recognizes the liver without its distant surroundings."""

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import linear_field

_POINTS = 4  # along each axis; blobs are about a third of the volume wide
_SAMPLES = 32  # along each axis; the threshold is estimated from these voxels because sorting all takes longer


def corrupt(image, labels, mean: float, sd: float, draws: Draws):
    """Sets a fraction of the background voxels to 0, the low end of the window, in a few large blobs.

    The fraction is drawn from N(mean, sd), clipped to two standard deviations and to 0..1.

    Args:
      image: Tensor[x, y, z, channels] float32.
      labels: Tensor[x, y, z]; liver and lesions are above 0.
      mean, sd: mean and standard deviation of the fraction.
      draws: random numbers of the sample.

    Returns:
      The changed image.
    """
    sizes = known_sizes(image)
    share = tf.clip_by_value(draws.normal("corruption/share", sd, mean), 0.0, 1.0)
    values = draws.normal("corruption/pattern", 1.0, shape=[_POINTS] * 3)
    with tf.control_dependencies([image]):  # otherwise its memory is allocated before the image is computed
        pattern = linear_field(values, sizes)
    other = labels == 0
    every = tuple(slice(None, None, max(1, n // _SAMPLES)) for n in sizes)
    sampled = tf.sort(tf.boolean_mask(pattern[every], other[every]))
    count = tf.size(sampled)
    # With infinite ends, a share of 0 blanks no voxel, and a share of 1 blanks all background voxels.
    levels = tf.concat([[-float("inf")], sampled, [float("inf")]], 0)
    at = tf.cast(tf.round(share * tf.cast(count, tf.float32)), tf.int32)
    level = tf.where(at >= count, levels[-1], levels[at])
    return tf.where((other & (pattern <= level))[..., tf.newaxis], 0.0, image)
