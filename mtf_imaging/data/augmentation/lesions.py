"""Paints synthetic lesions into the liver: dark ellipsoids with an uneven surface and a soft edge."""

import math
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.rounding import add, each_alike

_LIVER, _LESION = 1, 2
_SHORTEST = 0.7  # shortest axis of an ellipsoid, as a fraction of the longest
# Waves in random directions make the surface uneven. _WAVE_NUMBER is the standard deviation of their wave numbers in
# radians per radius.
_WAVES, _WAVE_NUMBER = 4, 3.0
_SOFT = 0.25  # half the width of the edge, in units of the squared relative radius


class Lesions(NamedTuple):
    """The synthetic lesions of a sample.

    Attributes:
      probability: probability that any lesion is painted; samples without liver never get one.
      most: largest number of lesions.
      diameter: (lowest, highest) length of the longest axis in voxels; its logarithm is drawn uniformly.
      contrast: (lowest, highest) amount by which a lesion is darkened, in units of the window.
    """

    probability: float
    most: int
    diameter: tuple[float, float]
    contrast: tuple[float, float]


def add_lesions(
    image: tf.Tensor, labels: tf.Tensor, start: tf.Tensor, whole_labels: tf.Tensor, lesions: Lesions, draws: Draws
) -> tuple:
    """Paints lesions, centered on random liver voxels outside existing lesions.

    Lesions are clipped to the liver, and existing lesions are not changed. Only liver voxels are computed, a few
    percent of the volume.

    Args:
      image: Tensor[x, y, z, channels] float32, a box of the stored sample.
      labels: Tensor[x, y, z] at the same voxels: 0 background, 1 liver, 2 lesion.
      start: Tensor[3] int64, the position of their first voxel in the sample.
      whole_labels: Tensor[x, y, z] of the whole sample, from which the centers are chosen.
      lesions: their number and look.
      draws: random numbers of the sample.

    Returns:
      The changed (image, labels).
    """

    def paint() -> tuple:
        planes = tf.range(tf.shape(whole_labels)[0])  # one plane at a time, to save memory
        counts = tf.map_fn(
            lambda x: tf.math.count_nonzero(whole_labels[x] == _LIVER), planes, fn_output_signature=tf.int64
        )
        return tf.cond(tf.reduce_any(counts > 0), lambda: painted(counts), lambda: (image, labels))

    def painted(counts: tf.Tensor) -> tuple:
        centers = _centers(whole_labels, counts, lesions.most, draws)
        places = tf.where(labels == _LIVER)  # [liver, 3]
        radius, depth = _relative_radius(tf.cast(places + start, tf.float32), centers, lesions, draws)
        dark = depth * tf.clip_by_value((1 + _SOFT - radius) / (2 * _SOFT), 0.0, 1.0)
        dark = tf.repeat(tf.reduce_max(dark, 1)[:, tf.newaxis], image.shape[3], 1)
        lesion = tf.boolean_mask(places, tf.reduce_any(radius < 1, 1))
        marks = tf.fill([tf.shape(lesion)[0]], tf.cast(_LESION, labels.dtype))
        darkened = tf.maximum(tf.tensor_scatter_nd_sub(image, places, dark), 0.0)
        return darkened, tf.tensor_scatter_nd_update(labels, lesion, marks)

    return tf.cond(draws.chance("lesions", lesions.probability), paint, lambda: (image, labels))


def _centers(whole_labels: tf.Tensor, counts: tf.Tensor, most: int, draws: Draws) -> tf.Tensor:
    """Chooses liver voxels as centers.

    Args:
      whole_labels: Tensor[x, y, z].
      counts: Tensor[x] int64, the number of liver voxels at each position along x.
      most: number of voxels to choose.
      draws: random numbers of the sample.

    Returns:
      Tensor[lesions, 3] float32, positions.
    """
    ends = tf.cumsum(counts)
    total = ends[-1]
    chosen = tf.cast(draws.uniform("lesions/centre", shape=[most]) * tf.cast(total, tf.float32), tf.int64)
    chosen = tf.minimum(chosen, total - 1)
    planes = tf.searchsorted(ends, chosen, side="right", out_type=tf.int64)
    ranks = chosen - tf.gather(ends - counts, planes)

    def place(plane_and_rank: tuple) -> tf.Tensor:
        plane, rank = plane_and_rank
        return tf.concat([[plane], tf.where(whole_labels[plane] == _LIVER)[rank]], 0)

    return tf.cast(tf.map_fn(place, (planes, ranks), fn_output_signature=tf.int64), tf.float32)


def _relative_radius(
    position: tf.Tensor, center: tf.Tensor, lesions: Lesions, draws: Draws
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns squared relative distances from the lesions and their contrasts.

    Sums are computed in a fixed order, so that a voxel's distances do not depend on the other voxels.

    Args:
      position: Tensor[liver, 3] float32, positions of liver voxels.
      center: Tensor[lesions, 3] float32.

    Returns:
      Tensor[liver, lesions], squared distances that are 1 at the surface of a lesion and infinite for unused lesions;
      and Tensor[lesions], the amount by which each lesion is darkened.
    """
    most, (least, largest) = lesions.most, (math.log(bound) for bound in lesions.diameter)
    longest = tf.exp(draws.uniform("lesions/diameter", least, largest, [most, 1])) / 2
    radii = longest * draws.uniform("lesions/axes", _SHORTEST, 1.0, [most, 3])
    offset = tf.unstack((position[:, tf.newaxis] - center) / radii, axis=2)  # [liver, lesions] each

    waves = tf.unstack(draws.normal("lesions/waves", _WAVE_NUMBER, shape=[most, 3, _WAVES]), axis=1)
    phase = draws.uniform("lesions/phase", 0.0, 2 * math.pi, [most, _WAVES])
    cosines = []
    for wave in range(_WAVES):
        turns = add(*(along * waves[axis][:, wave] for axis, along in enumerate(offset)), phase[:, wave])
        cosines.append(each_alike(tf.cos, turns))
    uneven = add(0.5, add(*cosines) * (0.5 / _WAVES))  # in 0..1, so that no lesion exceeds its diameter
    squared = add(*map(tf.square, offset)) * add(1.0, uneven)

    number = tf.cast(draws.uniform("lesions/number", 1.0, most + 1.0), tf.int32)
    squared = tf.where(tf.range(most) < number, squared, float("inf"))
    return squared, draws.uniform("lesions/contrast", *lesions.contrast, [most])
