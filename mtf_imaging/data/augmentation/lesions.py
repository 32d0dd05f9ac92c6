"""Paints synthetic lesions into the liver: dark ellipsoids with an uneven surface and a soft edge."""

import math

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws

_LIVER, _LESION = 1, 2
_SHORTEST = 0.7  # shortest axis of an ellipsoid, as a fraction of the longest
# Waves in random directions make the surface uneven. _WAVE_NUMBER is the standard deviation of their wave numbers, in
# radians per radius.
_WAVES, _WAVE_NUMBER = 4, 3.0
_SOFT = 0.25  # half the width of the edge, in units of the squared relative radius


def add_lesions(image, labels, probability: float, most: int, diameter, contrast, draws: Draws) -> tuple:
    """Paints 1 to `most` lesions with `probability`, centered on random liver voxels outside existing lesions.

    Lesions are clipped to the liver, and existing lesions are not changed. Only voxels of the liver are computed, a few
    percent of a volume.

    Args:
      image: Tensor[x, y, z, channels] float32.
      labels: Tensor[x, y, z]: 0 background, 1 liver, 2 lesion.
      probability: probability that any lesion is painted; volumes without liver never get one.
      most: largest number of lesions.
      diameter: (lowest, highest) length of the longest axis in voxels; its logarithm is drawn uniformly.
      contrast: (lowest, highest) amount by which a lesion is darkened, in units of the window.
      draws: random numbers of the sample.

    Returns:
      The changed (image, labels).
    """
    sizes = known_sizes(image)
    flat = tf.reshape(labels, [-1])

    def painted():
        places = tf.where(flat >= _LIVER)[:, 0]  # [liver]
        of_liver = tf.gather(flat, places) == _LIVER
        radius, depth = _relative_radius(places, of_liver, sizes, most, diameter, contrast, draws)
        dark = depth * tf.clip_by_value((1 + _SOFT - radius) / (2 * _SOFT), 0.0, 1.0)
        dark = tf.where(of_liver, tf.reduce_max(dark, 1), 0.0)
        inside = of_liver & tf.reduce_any(radius < 1, 1)
        values = tf.reshape(image, [-1, image.shape[3]])
        values = tf.tensor_scatter_nd_sub(
            values, places[:, tf.newaxis], tf.repeat(dark[:, tf.newaxis], image.shape[3], 1)
        )
        lesion = tf.boolean_mask(places, inside)[:, tf.newaxis]
        marks = tf.fill([tf.shape(lesion)[0]], tf.cast(_LESION, labels.dtype))
        marked = tf.tensor_scatter_nd_update(flat, lesion, marks)
        return tf.maximum(tf.reshape(values, tf.shape(image)), 0.0), tf.reshape(marked, tf.shape(labels))

    wanted = draws.chance("lesions", probability) & tf.reduce_any(flat == _LIVER)
    return tf.cond(wanted, painted, lambda: (image, labels))


def _relative_radius(places, of_liver, sizes, most, diameter, contrast, draws):
    """Returns squared relative distances from the lesions and their contrasts.

    Args:
      places: Tensor[liver], flat indices of voxels of the liver.
      of_liver: Tensor[liver] bool, whether a voxel may be the center of a lesion.

    Returns:
      Tensor[liver, lesions], squared distances that are 1 at the surface of a lesion and infinite for unused lesions;
      and Tensor[lesions], the amount by which each lesion is darkened.
    """
    _, y, z = sizes
    position = tf.cast(tf.stack([places // (y * z), places // z % y, places % z], 1), tf.float32)
    eligible = tf.boolean_mask(position, of_liver)
    count = tf.cast(tf.shape(eligible)[0], tf.float32)
    chosen = tf.cast(draws.uniform("lesions/centre", shape=[most]) * count, tf.int32)
    center = tf.gather(eligible, tf.minimum(chosen, tf.shape(eligible)[0] - 1))  # [lesions, 3]

    least, largest = (math.log(bound) for bound in diameter)
    longest = tf.exp(draws.uniform("lesions/diameter", least, largest, [most, 1])) / 2
    radii = longest * draws.uniform("lesions/axes", _SHORTEST, 1.0, [most, 3])
    offset = (position[:, tf.newaxis] - center) / radii  # [liver, lesions, 3]

    waves = draws.normal("lesions/waves", _WAVE_NUMBER, shape=[most, 3, _WAVES])
    phase = draws.uniform("lesions/phase", 0.0, 2 * math.pi, [most, _WAVES])
    turns = tf.einsum("plc,lcw->plw", offset, waves) + phase
    uneven = tf.reduce_mean(0.5 + 0.5 * tf.cos(turns), 2)  # in 0..1, so that no lesion exceeds its diameter
    squared = tf.reduce_sum(offset**2, 2) * (1 + uneven)

    number = tf.cast(draws.uniform("lesions/number", 1.0, most + 1.0), tf.int32)
    squared = tf.where(tf.range(most) < number, squared, float("inf"))
    return squared, draws.uniform("lesions/contrast", *contrast, [most])
