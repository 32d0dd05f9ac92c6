"""The random numbers of one sample: functions of the run's seed, the number of the sample and a name alone."""

import zlib

import tensorflow as tf


class Draws:
    """Random numbers by name, so that an option draws the same whatever other options are in use.

    Args:
      seed: of the run.
      sample: Tensor[] int64, number of the sample since the run began.

    Attributes:
      key: Tensor[2] int64.
    """

    def __init__(self, seed: int, sample):
        self.key = tf.stack([tf.cast(seed, tf.int64), tf.cast(sample, tf.int64)])

    def seed(self, name: str):
        """Tensor[2] for TensorFlow's stateless operations."""
        return tf.random.experimental.stateless_fold_in(self.key, tf.constant(zlib.crc32(name.encode()), tf.int64))

    def uniform(self, name: str, low=0.0, high=1.0, shape=()):
        """Tensor[shape] float32, evenly from low..high."""
        return tf.random.stateless_uniform(shape, self.seed(name), low, high)

    def normal(self, name: str, sd, mean=0.0, shape=()):
        """Tensor[shape] float32 of a normal distribution, what is beyond two standard deviations moved to these."""
        return mean + sd * tf.clip_by_value(tf.random.stateless_normal(shape, self.seed(name)), -2.0, 2.0)

    def chance(self, name: str, probability: float):
        """Tensor[] bool, true with this probability."""
        return self.uniform(name) < probability
