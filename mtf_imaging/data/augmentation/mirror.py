"""Flips and half turns, which move voxels without changing their values."""

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.sampling.grid import AXIS_NAMES

_TRANSVERSE = (0, 1)  # x and y


def flip(image, labels, flips: tuple[str, ...], seeds) -> tuple:
    """Mirrors each of the given axes with probability 1/2.

    Args:
      image: Tensor[x, y, z, channels].
      labels: Tensor[x, y, z].
      flips: names of the axes.
      seeds: a seed for each of x, y and z.

    Returns:
      (image, labels), reversed along the same axes.
    """
    axes = [axis for axis, name in enumerate(AXIS_NAMES) if name in flips]
    mirrored = tf.stack([tf.random.stateless_uniform([], seeds[axis]) < 0.5 for axis in axes])
    return tuple(_reverse(x, tf.boolean_mask(axes, mirrored)) for x in (image, labels))


def half_turn(image, labels, probability: float, draws: Draws) -> tuple:
    """Rotates by 180 degrees about z with `probability`, from supine to prone.

    Args:
      image: Tensor[x, y, z, channels].
      labels: Tensor[x, y, z].
      probability: probability of the rotation.
      draws: random numbers of the sample.

    Returns:
      (image, labels), both reversed along x and y, or both unchanged.
    """
    turned = tf.fill([len(_TRANSVERSE)], draws.chance("half_turn", probability))
    return tuple(_reverse(x, tf.boolean_mask(_TRANSVERSE, turned)) for x in (image, labels))


def _reverse(x, axes):
    """Reverses along all axes in one pass, several times faster because a last axis of size 1 is removed first."""
    volume = tf.squeeze(x, [3]) if x.shape[3:] == [1] else x
    return tf.reshape(tf.reverse(volume, axes), tf.shape(x))
