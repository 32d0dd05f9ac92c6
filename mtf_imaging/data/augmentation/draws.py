"""Draws the random numbers of one sample, which depend only on the run's seed, the sample number and a name."""

import zlib

import tensorflow as tf

from mtf_imaging.data.augmentation.normals import normal_values
from mtf_imaging.data.sampling.grid import Grid, Region


class Draws:
    """Named random numbers; the draws of one option do not depend on other options.

    Args:
      seed: the run's seed.
      sample: Tensor[] int64, the sample number, counted from the start of the run.

    Attributes:
      key: Tensor[2] int64, the seed and the sample number.
    """

    def __init__(self, seed: int, sample):
        self.key = tf.stack([tf.cast(seed, tf.int64), tf.cast(sample, tf.int64)])

    def seed(self, name: str):
        """Returns a seed, Tensor[2], for TensorFlow's stateless operations."""
        return tf.random.experimental.stateless_fold_in(self.key, tf.constant(zlib.crc32(name.encode()), tf.int64))

    def uniform(self, name: str, low=0.0, high=1.0, shape=()):
        """Returns Tensor[shape] float32, uniform in low..high."""
        return tf.random.stateless_uniform(shape, self.seed(name), low, high)

    def normal(self, name: str, sd, mean=0.0, shape=()):
        """Returns Tensor[shape] float32 from a normal distribution, clipped to two standard deviations."""
        return mean + sd * tf.clip_by_value(tf.random.stateless_normal(shape, self.seed(name)), -2.0, 2.0)

    def normal_values(self, name: str, sd, sizes: Grid, region: Region):
        """Returns a region of `normal(name, sd, shape=sizes)`, Tensor[x, y, z]."""
        values = normal_values(self.seed(name), sizes, region)[..., 0]
        return sd * tf.clip_by_value(values, -2.0, 2.0)

    def chance(self, name: str, probability: float):
        """Returns Tensor[] bool, True with the given probability."""
        return self.uniform(name) < probability
