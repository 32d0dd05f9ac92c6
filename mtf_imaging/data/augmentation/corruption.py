"""Parts of the body blotted out, so that a liver is found by itself, not by what is far from it."""

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import linear_field

_POINTS = 4  # along each axis: blots are about a third of the volume wide
_SAMPLES = 32  # along each axis, of which the level that blots out a share is found: sorting all voxels takes longer


def corrupt(image, labels, mean: float, sd: float, draws: Draws):
    """Sets a share of what is neither liver nor lesion to 0, the low end of the window, in a few large blots.

    The share is drawn from N(mean, sd), cut off at two standard deviations and to 0..1.

    Args:
      image: Tensor[x, y, z, channels] float32.
      labels: Tensor[x, y, z]; liver and lesions are above 0.
      mean, sd: of the share.
      draws: of the sample.

    Returns:
      The image.
    """
    sizes = known_sizes(image)
    share = tf.clip_by_value(draws.normal("corruption/share", sd, mean), 0.0, 1.0)
    values = draws.normal("corruption/pattern", 1.0, shape=[_POINTS] * 3)
    with tf.control_dependencies([image]):  # or memory is taken for it while the image is still being made
        pattern = linear_field(values, sizes)
    other = labels == 0
    every = tuple(slice(None, None, max(1, n // _SAMPLES)) for n in sizes)
    sampled = tf.sort(tf.boolean_mask(pattern[every], other[every]))
    count = tf.size(sampled)
    # Infinite beyond both ends: nothing of a share of 0 is blotted out, and all of a share of 1.
    levels = tf.concat([[-float("inf")], sampled, [float("inf")]], 0)
    at = tf.cast(tf.round(share * tf.cast(count, tf.float32)), tf.int32)
    level = tf.where(at >= count, levels[-1], levels[at])
    return tf.where((other & (pattern <= level))[..., tf.newaxis], 0.0, image)
