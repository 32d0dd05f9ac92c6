"""Rearrangements of voxel blocks on one device, in any number of spatial dimensions.

The channels of the blocks are in the order of `tf.nn.space_to_depth`: the position within the block, in row-major
order, and then the channel of the voxel.
"""

import math
from collections.abc import Sequence

import tensorflow as tf


def space_to_depth(x: tf.Tensor, blocks: Sequence[int]) -> tf.Tensor:
    """Moves blocks to channels: `[batch, sizes..., channels]` to `[batch, sizes / blocks..., blocks... x channels]`.

    Voxels after the last complete block are dropped.

    Args:
      x: the tensor.
      blocks: size of a block along each spatial dimension.
    """
    batch, *sizes, channels = x.shape
    numbers = [size // block for size, block in zip(sizes, blocks, strict=True)]
    used = [number * block for number, block in zip(numbers, blocks, strict=True)]
    if used != sizes:
        x = tf.slice(x, [0] * len(x.shape), [batch, *used, channels])
    pairs = [size for pair in zip(numbers, blocks, strict=True) for size in pair]
    within = [2 * i + 2 for i in range(len(blocks))]
    x = tf.transpose(
        tf.reshape(x, [batch, *pairs, channels]), [0, *(i - 1 for i in within), *within, 2 * len(blocks) + 1]
    )
    return tf.reshape(x, [batch, *numbers, math.prod(blocks) * channels])


def depth_to_space(x: tf.Tensor, blocks: Sequence[int], sizes: Sequence[int]) -> tf.Tensor:
    """Moves channels to blocks, the inverse of `space_to_depth`.

    Args:
      x: the tensor, `[batch, numbers..., blocks... x channels]`.
      blocks: size of a block along each spatial dimension.
      sizes: sizes of the result. Voxels after the last block are 0.
    """
    batch, *numbers, depth = x.shape
    ndims, channels = len(blocks), depth // math.prod(blocks)
    x = tf.reshape(x, [batch, *numbers, *blocks, channels])
    order = [axis for i in range(ndims) for axis in (1 + i, 1 + ndims + i)]
    made = [number * block for number, block in zip(numbers, blocks, strict=True)]
    x = tf.reshape(tf.transpose(x, [0, *order, 2 * ndims + 1]), [batch, *made, channels])
    if made == list(sizes):
        return x
    return tf.pad(x, [[0, 0], *([0, size - n] for size, n in zip(sizes, made, strict=True)), [0, 0]])
