"""Light augmentation, a function of (seed, sample number) alone: a resumed run draws what an unbroken one would."""

from dataclasses import dataclass

import tensorflow as tf

from mtf_imaging.data.grid import AXIS_NAMES
from mtf_imaging.errors import DataError


@dataclass(frozen=True)
class Augmentation:
    """What may be changed about a training sample; the default changes nothing.

    Attributes:
      flips: axes that are mirrored with probability 1/2 each, for instance `("x", "y")`.
      shift: the image is brightened by a uniform draw from -shift..shift, in units of the window.
      scale: contrast around the middle of the window is multiplied by a draw from 1 - scale..1 + scale.
      noise: standard deviation of Gaussian noise, in units of the window.
    """

    flips: tuple[str, ...] = ()
    shift: float = 0.0
    scale: float = 0.0
    noise: float = 0.0

    def __post_init__(self):
        unknown = [name for name in self.flips if name not in AXIS_NAMES]
        if unknown:
            raise DataError(f"flips {unknown}: no axes of a volume. Fix: choose among {', '.join(AXIS_NAMES)}.")

    def __call__(self, image, labels, seed: int, sample) -> tuple:
        """Changes one sample.

        Args:
          image: Tensor[x, y, z, channels] float32 in 0..1.
          labels: Tensor[x, y, z].
          seed: seed of the run.
          sample: Tensor[] int64, number of the sample since the run began.

        Returns:
          (image, labels) of the same shapes; the image again in 0..1.
        """
        seeds = tf.random.experimental.stateless_split(
            tf.stack([tf.cast(seed, tf.int64), tf.cast(sample, tf.int64)]), 6
        )
        axes = [axis for axis, name in enumerate(AXIS_NAMES) if name in self.flips]
        if axes:
            mirrored = tf.stack([tf.random.stateless_uniform([], seeds[axis]) < 0.5 for axis in axes])
            image, labels = (_reverse(x, tf.boolean_mask(axes, mirrored)) for x in (image, labels))
        if self.scale:
            image = 0.5 + (image - 0.5) * tf.random.stateless_uniform([], seeds[3], 1 - self.scale, 1 + self.scale)
        if self.shift:
            image += tf.random.stateless_uniform([], seeds[4], -self.shift, self.shift)
        if self.noise:
            image += tf.random.stateless_normal(tf.shape(image), seeds[5], stddev=self.noise)
        return tf.clip_by_value(image, 0.0, 1.0), labels


def _reverse(x, axes):
    """`tf.reverse` along all axes in one pass, which takes several times as long where a last axis of one is kept."""
    volume = tf.squeeze(x, [3]) if x.shape[3:] == [1] else x
    return tf.reshape(tf.reverse(volume, axes), tf.shape(x))
