"""Random numbers that do not depend on the layout.

A value is a hash of (seed, step, operation) and of its element's position in the WHOLE tensor, so it does not matter
which processor draws it, nor how many there are; a run that is resumed at a step draws what an unbroken run draws
there.
"""

import dataclasses
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.random.positions import Key, Rows, mix, rows_of, u32

if TYPE_CHECKING:
    from mtf_imaging.meshes.mesh_impl import ShardMeshImpl


@dataclasses.dataclass(frozen=True)
class Part:
    """Which part of a dimension a program computes, where it computes a tensor in equal parts, one after the other.

    Attributes:
      dim: name of the dimension.
      count: number of parts.
      index: tf.Tensor[] int32 in 0..count-1, which one.
    """

    dim: str
    count: int
    index: tf.Tensor


class RandomState:
    """Keys for the random operations of a program.

    Args:
      seed: an int.
      step: the program's step, a tf.Tensor of int64.
      part: a `Part`, or None for the whole.

    Attributes:
      zero: 0; see `positions.rows_of`.
    """

    def __init__(self, seed: int, step: tf.Tensor, part: Part | None = None) -> None:
        self.part = part
        halves = [u32(seed), u32(seed >> 32)]
        # uint32 of an int64 keeps its low half.
        halves += [tf.cast(step % 2**32, tf.uint32), tf.cast(step // 2**32, tf.uint32)]
        self.zero = tf.cast(tf.bitwise.right_shift(step, tf.constant(63, step.dtype)), tf.uint32)
        self._base = u32(0)
        for half in halves:
            self._base = mix(self._base + half + u32(0x9E3779B9))
        self._drawn = 0

    def key(self, name: str) -> Key:
        """The key, two uint32 scalars, of the operation of this name in this step."""
        first = mix(tf.bitwise.bitwise_xor(self._base, u32(zlib.crc32(name.encode()))))
        return first, mix(first + u32(1))

    def next_key(self) -> Key:
        """A key for the next of the operations that have no name of their own at hand."""
        self._drawn += 1
        return self.key(f"draw {self._drawn}")


def _from_rows(
    mesh: "ShardMeshImpl", shape: mtf.Shape, fn: Callable[[Rows], tf.Tensor], after: LaidOutTensor | None = None
) -> LaidOutTensor:
    """A laid-out tensor of `shape`: what `fn` returns, shard by shard, of `Rows` of all the elements of its stack."""
    axes = mesh.split_axes(shape)
    slices = mesh.slice_shape(shape)
    state = mesh.random_state
    assert state is not None, "a program that draws random numbers gives its mesh a RandomState"
    part = state.part
    parts = {d: part for d, dim in enumerate(shape.dims) if part and dim.name == part.dim}
    dims = [(dim.size * (parts[d].count if d in parts else 1), n) for d, (dim, n) in enumerate(zip(shape.dims, slices))]
    offsets = {d: tf.cast(part.index, tf.uint32) * u32(shape.dims[d].size) for d, part in parts.items()}
    earlier = [[stack] for stack in after.tensor_list] if after else [[]] * len(mesh.devices)
    stacks = []
    for shard, device, known in zip(mesh.grid.shard_coordinates(), mesh.devices, earlier):
        processors = mesh.grid.processor_coordinates(shard) if mesh.is_split(shape) else [()]
        starts = [[0 if a is None else at[a] * n for a, n in zip(axes, slices)] for at in processors]
        begins = np.array(starts, np.int64).reshape(len(processors), len(dims))
        with tf.device(device), tf.control_dependencies(known):
            rows = rows_of(dims, begins, offsets, state.zero)
            stacks.append(tf.reshape(fn(rows), [len(processors), *slices]))
    return LaidOutTensor(stacks)


def random_bits(mesh: "ShardMeshImpl", shape: mtf.Shape, key: Key) -> LaidOutTensor:
    """A laid-out tensor of `shape` of uniform uint32s; `key` from a `RandomState`."""
    return _from_rows(mesh, shape, lambda rows: rows.bits(key))


def random_mask(
    mesh: "ShardMeshImpl", shape: mtf.Shape, key: Key, probability: float, after: LaidOutTensor
) -> LaidOutTensor:
    """A laid-out tensor of `shape` of bools: whether an element's random bits, of 2^32, are in this share of them.

    Bits are drawn for few elements at a time: with what they are made of, they take much more memory than the mask.

    Args:
      mesh: a `ShardMeshImpl`.
      shape: an `mtf.Shape`.
      key: from a `RandomState`.
      probability: the share.
      after: a laid-out tensor to wait for. All masks of a step could be drawn at its beginning otherwise, and one that
        the gradient draws again would be the same TensorFlow operation, and kept.
    """
    threshold = tf.constant(min(2**32 - 1, round(probability * 2**32)), tf.uint32)
    return _from_rows(mesh, shape, lambda rows: rows.map(lambda some: some.bits(key) < threshold, tf.bool), after)


def _uniform(bits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Uniform values in [0, 1), with as many random bits as the significand of `dtype` holds."""
    kept = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 32}[dtype]
    # By way of int64: no device lacks that cast, and all values are exact.
    return tf.cast(tf.cast(tf.bitwise.right_shift(bits, u32(32 - kept)), tf.int64), dtype) * tf.cast(2.0**-kept, dtype)


def draw(
    mesh: "ShardMeshImpl", shape: mtf.Shape, distribution: str, key: Key, kwargs: Mapping[str, Any]
) -> LaidOutTensor:
    """What `mtf.random_uniform` and `mtf.random_normal` draw; `distribution` names the TensorFlow function."""
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
        f"random values of {distribution!r} are not supported: draw 'random_uniform' or 'random_normal'"
    )
