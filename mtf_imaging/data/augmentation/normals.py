"""Normally distributed voxel values that do not depend on the region that is computed.

The value of a voxel depends on the seed and the position of the voxel in the whole sample. The values equal the result
of `tf.random.stateless_normal` for the whole sample, because its generator, Philox, computes four values from each
counter.
"""

import tensorflow as tf

from mtf_imaging.data.augmentation.regions import shape_of
from mtf_imaging.data.sampling.grid import Grid, Region

_PHILOX = tf.random.Algorithm.PHILOX.value
_GROUP = 4  # values per counter


def normal_values(seed: tf.Tensor, sizes: Grid, region: Region, channels: int = 1) -> tf.Tensor:
    """Returns a region of `tf.random.stateless_normal([*sizes, channels], seed)`.

    The values are drawn for whole rows along z, so a region that is narrow along z takes as long as a wide one.

    Args:
      seed: Tensor[2].
      sizes: size of the whole sample in voxels along x, y, z.
      region: a region of the sample.
      channels: number of values per voxel.

    Returns:
      Tensor[x, y, z, channels] float32.
    """
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    _, rows, columns = sizes
    (x, y, z), shape = region, shape_of(region)
    row = columns * channels

    def run(first: tf.Tensor, count: int) -> tf.Tensor:
        """Returns `count` values from value number `first`, Tensor[] int64, of the whole sample."""
        group, skipped = first // _GROUP, first % _GROUP
        at = counter + tf.cast(tf.stack([group, tf.zeros_like(group)]), counter.dtype)
        shape = tf.reshape(skipped + count, [1])
        values = tf.raw_ops.StatelessRandomNormalV2(shape=shape, key=key, counter=at, alg=_PHILOX)
        return values[skipped:]

    def plane(number: tf.Tensor) -> tf.Tensor:
        values = run((number * rows + y.start) * row, shape[1] * row)
        return tf.reshape(values, [shape[1], columns, channels])[:, z]

    if shape[1:] == (rows, columns):
        values = run(tf.constant(x.start * rows * row, tf.int64), shape[0] * rows * row)
    else:
        values = tf.map_fn(plane, tf.range(x.start, x.stop, dtype=tf.int64), fn_output_signature=tf.float32)
    return tf.reshape(values, [*shape, channels])
