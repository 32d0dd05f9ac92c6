"""Random numbers that do not depend on the layout.

A value is a hash of (seed, step, operation) and of the position of its element in the WHOLE tensor. It therefore does
not depend on the number of processors or on the processor that draws it. A run that resumes at a step draws the same
values as an uninterrupted run. Within loops, the iteration numbers of all enclosing loops are hashed as well.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.random.positions import Key, Rows, mix, u32
from mtf_imaging.engine.meshes.shards import Shards
from mtf_imaging.errors import NotSupportedError


def _from_rows(
    mesh: Shards, shape: mtf.Shape, fn: Callable[[Rows], tf.Tensor], after: LaidOutTensor | None = None
) -> LaidOutTensor:
    """Builds a laid-out tensor by calling `fn` for each shard on the `Rows` of all elements in its stack.

    Args:
      mesh: the `Shards`.
      shape: an `mtf.Shape`.
      fn: a function from `Rows` to a tensor with one value per element.
      after: a laid-out tensor that must be computed first, or None.
    """
    axes, slices = mesh.split_axes(shape), mesh.slice_shape(shape)
    state = mesh.random_state
    assert state is not None, "the mesh has no RandomState; `Program` sets it before lowering"
    earlier = [[stack] for stack in after.tensor_list] if after else [[]] * len(mesh.devices)
    stacks = []
    for shard, device, dependencies in zip(mesh.transport.coordinates, mesh.devices, earlier):
        processors = mesh.grid.processor_coordinates(shard) if mesh.is_split(shape) else [()]
        starts = [[0 if a is None else at[a] * n for a, n in zip(axes, slices)] for at in processors]
        begins = np.array(starts, np.int64).reshape(len(processors), len(slices))
        rows = state.rows(shape, slices, begins, mesh.slice_offsets(shape), device)
        with tf.device(device), tf.control_dependencies(dependencies):
            stacks.append(tf.reshape(fn(rows), [len(processors), *slices]))
    return LaidOutTensor(stacks)


def random_bits(mesh: Shards, shape: mtf.Shape, key: Key) -> LaidOutTensor:
    """Returns a laid-out tensor of uniform uint32 values for a `key` of a `RandomState`."""
    return _from_rows(mesh, shape, lambda rows: rows.bits(key))


def random_mask(mesh: Shards, shape: mtf.Shape, key: Key, probability: float, after: LaidOutTensor) -> LaidOutTensor:
    """Returns a laid-out tensor of bools that are True with the given probability.

    Bits are drawn for few elements at a time, because the bits and their intermediate values need much more memory than
    the mask.

    Args:
      mesh: the `Shards`.
      shape: an `mtf.Shape`.
      key: a key of a `RandomState`.
      probability: the probability of True; it is rounded to a multiple of 2^-32.
      after: a laid-out tensor that must be computed first. Without this dependency, TensorFlow could draw all masks at
        the beginning of a step. It could also merge a mask with its recomputation in the gradient and keep it
        in memory.
    """
    threshold = tf.constant(min(2**32 - 1, round(probability * 2**32)), tf.uint32)
    return _from_rows(mesh, shape, lambda rows: rows.map(lambda some: some.bits(key) < threshold, tf.bool), after)


def _uniform(bits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts random bits to uniform values in [0, 1), with as many random bits as the significand of `dtype`."""
    bit_count = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 32}[dtype]
    # The cast goes through int64, which every device supports and which is exact for all values.
    return tf.cast(tf.cast(tf.bitwise.right_shift(bits, u32(32 - bit_count)), tf.int64), dtype) * tf.cast(
        2.0**-bit_count, dtype
    )


def draw(mesh: Shards, shape: mtf.Shape, distribution: str, key: Key, kwargs: Mapping[str, Any]) -> LaidOutTensor:
    """Draws the values of `mtf.random_uniform` or `mtf.random_normal`.

    Args:
      mesh: the `Shards`.
      shape: an `mtf.Shape`.
      distribution: name of the TensorFlow function, "random_uniform" or "random_normal".
      key: a key of a `RandomState`.
      kwargs: keyword arguments of the TensorFlow function.

    Raises:
      NotSupportedError: the distribution is not supported.
    """
    dtype = kwargs.get("dtype", tf.float32)
    compute = dtype if dtype.is_floating else tf.float64

    def uniform(which: int) -> LaidOutTensor:
        own_key = mix(key[0] + u32(which)), mix(key[1] + u32(which))
        return mesh.map_stacks(lambda bits: _uniform(bits, compute), random_bits(mesh, shape, own_key))

    if distribution == "random_uniform":
        low = kwargs.get("minval", 0)
        high = kwargs.get("maxval", None)
        high = 1 if high is None else high

        def scale(u: tf.Tensor) -> tf.Tensor:
            values = u * tf.cast(high - low, compute) + tf.cast(low, compute)
            return values if dtype.is_floating else tf.cast(tf.floor(values), dtype)

        return mesh.map_stacks(scale, uniform(0))
    if distribution == "random_normal":
        mean, stddev = kwargs.get("mean", 0.0), kwargs.get("stddev", 1.0)

        def box_muller(u: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            radius = tf.sqrt(-2 * tf.math.log1p(-u))
            return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * radius * tf.cos(tf.cast(2 * np.pi, dtype) * v)

        return mesh.map_stacks(box_muller, uniform(0), uniform(1))
    raise NotSupportedError(
        f"random values of {distribution!r} are not supported. Fix: use 'random_uniform' or 'random_normal'."
    )
