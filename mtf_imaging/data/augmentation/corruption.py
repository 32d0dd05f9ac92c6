"""Blanks parts of the body, so that a network recognizes the liver without its distant surroundings."""

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import axis_taps, linear_taps, spread
from mtf_imaging.data.sampling.grid import Grid, Region

_POINTS = 4  # control points along each axis; blobs are about a third of the volume wide
_SAMPLES = 32  # voxels along each axis that determine the threshold, because sorting all voxels takes longer


def sampled_voxels(sizes: Grid) -> Region:
    """Returns the voxels of a sample, every n-th along each axis, from which `corrupt` estimates a threshold."""
    x, y, z = (slice(0, n, max(1, n // _SAMPLES)) for n in sizes)
    return x, y, z


def corrupt(
    image: tf.Tensor,
    labels: tf.Tensor,
    sampled_labels: tf.Tensor,
    mean: float,
    sd: float,
    draws: Draws,
    sizes: Grid,
    region: Region,
) -> tf.Tensor:
    """Sets a fraction of the background voxels to 0, the low end of the window, in a few large blobs.

    The fraction is drawn from N(mean, sd), clipped to two standard deviations and to 0..1.

    Args:
      image: Tensor[x, y, z, channels] float32, a region of the sample.
      labels: Tensor[x, y, z]; liver and lesions are above 0.
      sampled_labels: Tensor[x, y, z], the labels at the `sampled_voxels` of the whole sample.
      mean, sd: mean and standard deviation of the fraction.
      draws: random numbers of the sample.
      sizes: size of the sample in voxels along x, y, z.
      region: the voxels of the image.

    Returns:
      The changed image.
    """
    share = tf.clip_by_value(draws.normal("corruption/share", sd, mean), 0.0, 1.0)
    values = draws.normal("corruption/pattern", 1.0, shape=[_POINTS] * 3)

    def pattern(voxels: Region) -> tf.Tensor:
        return spread(values, axis_taps(linear_taps, voxels, sizes, [_POINTS] * 3))

    sampled = tf.sort(tf.boolean_mask(pattern(sampled_voxels(sizes)), sampled_labels == 0))
    count = tf.size(sampled)
    # With infinite ends, a share of 0 blanks no voxel, and a share of 1 blanks all background voxels.
    levels = tf.concat([[-float("inf")], sampled, [float("inf")]], 0)
    at = tf.cast(tf.round(share * tf.cast(count, tf.float32)), tf.int32)
    level = tf.where(at >= count, levels[-1], levels[at])
    with tf.control_dependencies([image]):  # otherwise its memory is allocated before the image is computed
        blank = (labels == 0) & (pattern(region) <= level)
    return tf.where(blank[..., tf.newaxis], 0.0, image)
