"""Flips and half turns: voxels change places and keep their values."""

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.sampling.grid import AXIS_NAMES

_TRANSVERSE = (0, 1)  # x and y


def flip(image, labels, flips: tuple[str, ...], seeds) -> tuple:
    """Mirrors each of the axes named with probability 1/2.

    Args:
      image: Tensor[x, y, z, channels].
      labels: Tensor[x, y, z].
      flips: names of axes.
      seeds: one for each of x, y and z.

    Returns:
      (image, labels), reversed along the same axes.
    """
    axes = [axis for axis, name in enumerate(AXIS_NAMES) if name in flips]
    mirrored = tf.stack([tf.random.stateless_uniform([], seeds[axis]) < 0.5 for axis in axes])
    return tuple(_reverse(x, tf.boolean_mask(axes, mirrored)) for x in (image, labels))


def half_turn(image, labels, probability: float, draws: Draws) -> tuple:
    """Turns by 180 degrees about z with `probability`: from lying on the back to lying on the front.

    Args:
      image: Tensor[x, y, z, channels].
      labels: Tensor[x, y, z].
      probability: of the turn.
      draws: of the sample.

    Returns:
      (image, labels), reversed along both x and y, or neither.
    """
    turned = tf.fill([len(_TRANSVERSE)], draws.chance("half_turn", probability))
    return tuple(_reverse(x, tf.boolean_mask(_TRANSVERSE, turned)) for x in (image, labels))


def _reverse(x, axes):
    """`tf.reverse` along all axes in one pass, which takes several times as long where a last axis of one is kept."""
    volume = tf.squeeze(x, [3]) if x.shape[3:] == [1] else x
    return tf.reshape(tf.reverse(volume, axes), tf.shape(x))
