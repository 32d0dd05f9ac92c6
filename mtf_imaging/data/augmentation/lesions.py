"""Synthetic lesions, painted into the liver and its labels: dark ellipsoids of uneven surface and soft edge."""

import math

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws

_LIVER, _LESION = 1, 2
_SHORTEST = 0.7  # axes of an ellipsoid, as parts of the longest
_WAVES, _WAVE_NUMBER = 4, 3.0  # of the unevenness; turns around an ellipsoid's radius, as a standard deviation
_SOFT = 0.25  # the edge is this wide, on either side, of the squared relative radius


def add_lesions(image, labels, probability: float, most: int, diameter, contrast, draws: Draws) -> tuple:
    """Paints 1 to `most` lesions, with `probability`, around random voxels of the liver that are no lesion yet.

    What of a lesion would lie outside of the liver is left out; a lesion that is there already stays as it is. Only
    voxels of the liver are computed, a few in a hundred of a volume.

    Args:
      image: Tensor[x, y, z, channels] float32.
      labels: Tensor[x, y, z]: 0 background, 1 liver, 2 lesion.
      probability: of any; volumes without liver have none.
      most: lesions.
      diameter: (least, most) of the longest axis in voxels, drawn evenly in the logarithm.
      contrast: (least, most) that a lesion is darker than it was, in units of the window.
      draws: of the sample.

    Returns:
      (image, labels).
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
        found = tf.tensor_scatter_nd_update(flat, lesion, marks)
        return tf.maximum(tf.reshape(values, tf.shape(image)), 0.0), tf.reshape(found, tf.shape(labels))

    wanted = draws.chance("lesions", probability) & tf.reduce_any(flat == _LIVER)
    return tf.cond(wanted, painted, lambda: (image, labels))


def _relative_radius(places, of_liver, sizes, most, diameter, contrast, draws):
    """Squared distances from lesions, where 1 is a lesion's surface.

    Args:
      places: Tensor[liver], flat indices.
      of_liver: Tensor[liver] bool, which of them may be a centre.

    Returns:
      Tensor[liver, lesions], infinite for lesions that are too many, and Tensor[lesions]: how dark each is.
    """
    _, y, z = sizes
    position = tf.cast(tf.stack([places // (y * z), places // z % y, places % z], 1), tf.float32)
    eligible = tf.boolean_mask(position, of_liver)
    count = tf.cast(tf.shape(eligible)[0], tf.float32)
    chosen = tf.cast(draws.uniform("lesions/centre", shape=[most]) * count, tf.int32)
    centre = tf.gather(eligible, tf.minimum(chosen, tf.shape(eligible)[0] - 1))  # [lesions, 3]

    least, largest = (math.log(bound) for bound in diameter)
    longest = tf.exp(draws.uniform("lesions/diameter", least, largest, [most, 1])) / 2
    radii = longest * draws.uniform("lesions/axes", _SHORTEST, 1.0, [most, 3])
    offset = (position[:, tf.newaxis] - centre) / radii  # [liver, lesions, 3]

    waves = draws.normal("lesions/waves", _WAVE_NUMBER, shape=[most, 3, _WAVES])
    phase = draws.uniform("lesions/phase", 0.0, 2 * math.pi, [most, _WAVES])
    turns = tf.einsum("plc,lcw->plw", offset, waves) + phase
    uneven = tf.reduce_mean(0.5 + 0.5 * tf.cos(turns), 2)  # 0..1, so that no lesion is larger than was asked for
    squared = tf.reduce_sum(offset**2, 2) * (1 + uneven)

    number = tf.cast(draws.uniform("lesions/number", 1.0, most + 1.0), tf.int32)
    squared = tf.where(tf.range(most) < number, squared, float("inf"))
    return squared, draws.uniform("lesions/contrast", *contrast, [most])
