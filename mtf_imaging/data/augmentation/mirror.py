"""Flips and half turns, which move voxels without changing their values."""

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.sampling.grid import AXIS_NAMES

_TRANSVERSE = ("x", "y")


def draw_mirrored(flips: tuple[str, ...], probability: float, seeds: tf.Tensor, draws: Draws) -> tf.Tensor:
    """Draws the axes along which a sample is reversed.

    Args:
      flips: names of the axes that are mirrored with probability 1/2 each.
      probability: probability of a rotation by 180 degrees about z, from supine to prone.
      seeds: one seed for each flip along x, y and z.
      draws: random numbers of the sample.

    Returns:
      Tensor[3] bool.
    """
    never = tf.constant(False)
    turned = draws.chance("half_turn", probability) if probability else never
    mirrored = []
    for axis, name in enumerate(AXIS_NAMES):
        flipped = tf.random.stateless_uniform([], seeds[axis]) < 0.5 if name in flips else never
        mirrored.append(tf.math.logical_xor(flipped, turned if name in _TRANSVERSE else never))
    return tf.stack(mirrored)


def reverse(volume: tf.Tensor, mirrored: tf.Tensor) -> tf.Tensor:
    """Reverses some axes of a volume.

    Args:
      volume: Tensor[x, y, z] or Tensor[x, y, z, channels].
      mirrored: Tensor[3] bool, the axes to reverse.
    """
    axes = tf.boolean_mask(tf.range(len(AXIS_NAMES)), mirrored)
    # Without a last axis of size 1, one pass reverses all axes, which is several times faster.
    squeezed = tf.squeeze(volume, [3]) if volume.shape[3:] == [1] else volume
    return tf.reshape(tf.reverse(squeezed, axes), tf.shape(volume))
