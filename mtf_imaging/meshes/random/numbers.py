"""Random numbers that do not depend on the layout.

A value is a hash of (seed, step, operation) and of the position of its element in the WHOLE tensor. It therefore does
not depend on the number of processors or on the processor that draws it. A run that resumes at a step draws the same
values as an uninterrupted run. Within loops, the numbers of the iterations of all enclosing loops are hashed as well.
"""

import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.random.positions import Key, Rows, mix, slice_rows, u32

if TYPE_CHECKING:
    from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

_GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio


@dataclasses.dataclass(frozen=True)
class Part:
    """The micro-batch that a program computes, one of several equal pieces of a dimension.

    Attributes:
      dim: name of the dimension.
      count: number of micro-batches.
      index: tf.Tensor[] int32 in 0..count-1, the number of this micro-batch.
    """

    dim: str
    count: int
    index: tf.Tensor


class RandomState:
    """Keys for the random operations of a program.

    Args:
      seed: an int.
      step: the program's step, a tf.Tensor of int64.
      part: a `Part`, or None if the program computes the whole batch.

    Attributes:
      zero: a zero that TensorFlow cannot fold into constants; see `positions.slice_rows`.
    """

    def __init__(self, seed: int, step: tf.Tensor, part: Part | None = None) -> None:
        self.part = part
        halves = [u32(seed), u32(seed >> 32)]
        # A cast from int64 to uint32 keeps the low half.
        halves += [tf.cast(step % 2**32, tf.uint32), tf.cast(step // 2**32, tf.uint32)]
        self.zero = tf.cast(tf.bitwise.right_shift(step, tf.constant(63, step.dtype)), tf.uint32)
        self._base = u32(0)
        for half in halves:
            self._base = mix(self._base + half + u32(_GOLDEN))
        self._drawn = 0
        self._iterations: tuple[tf.Tensor, ...] = ()
        self._iterations_by_name: dict[str, tuple[tf.Tensor, ...]] = {}
        self._keys: dict[Any, Key] = {}
        self._rows: dict[Any, Rows] = {}

    @contextlib.contextmanager
    def iteration(self, number: tf.Tensor) -> Iterator[None]:
        """Within the block, new operations draw different values for each `number`.

        Args:
          number: tf.Tensor[] int32, the number of an iteration of a loop, from 0. Blocks of nested loops are nested.
        """
        outside = self._iterations
        self._iterations = *outside, number
        try:
            yield
        finally:
            self._iterations = outside

    def key(self, name: str) -> Key:
        """Returns the key (two uint32 scalars) of a named operation in this step and iteration.

        The gradient of an operation has the name of the operation, and draws the same values even if only the gradient
        is in a loop.
        """
        iterations = self._iterations_by_name.setdefault(name, self._iterations)
        cache_key = tf.compat.v1.get_default_graph(), name  # the body of a loop has its own graph
        if cache_key not in self._keys:
            first = mix(tf.bitwise.bitwise_xor(self._base, u32(zlib.crc32(name.encode()))))
            for number in iterations:
                first = mix(first + tf.cast(number, tf.uint32) + u32(_GOLDEN))
            self._keys[cache_key] = first, mix(first + u32(1))
        return self._keys[cache_key]

    def next_key(self) -> Key:
        """Returns the key of the next unnamed operation, numbered in the order of the calls."""
        self._drawn += 1
        return self.key(f"draw {self._drawn}")

    def rows(self, shape: mtf.Shape, slices: Sequence[int], begins: np.ndarray, device: str) -> Rows:
        """Returns the elements of the slices of a tensor. Tensors of one shape share them.

        Args:
          shape: shape of the whole tensor, or of one micro-batch of it.
          slices: shape of a slice.
          begins: integer array `[slices, dims]`, the position of the first element of each slice.
          device: the device that computes the positions.
        """
        parts = {d: self.part for d, dim in enumerate(shape.dims) if self.part and dim.name == self.part.dim}
        wholes = [dim.size * (parts[d].count if d in parts else 1) for d, dim in enumerate(shape.dims)]
        dims = tuple(zip(wholes, slices, strict=True))
        cache_key = tf.compat.v1.get_default_graph(), device, dims, tuple(parts), begins.tobytes()
        if cache_key not in self._rows:
            with tf.device(device):
                offsets = {d: tf.cast(part.index, tf.uint32) * u32(shape.dims[d].size) for d, part in parts.items()}
                self._rows[cache_key] = slice_rows(dims, begins, offsets, self.zero)
        return self._rows[cache_key]


def _from_rows(
    mesh: "ShardMeshImpl", shape: mtf.Shape, fn: Callable[[Rows], tf.Tensor], after: LaidOutTensor | None = None
) -> LaidOutTensor:
    """Builds a laid-out tensor by calling `fn` for each shard on the `Rows` of all elements of its stack.

    Args:
      mesh: a `ShardMeshImpl`.
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
        rows = state.rows(shape, slices, np.array(starts, np.int64).reshape(len(processors), len(slices)), device)
        with tf.device(device), tf.control_dependencies(dependencies):
            stacks.append(tf.reshape(fn(rows), [len(processors), *slices]))
    return LaidOutTensor(stacks)


def random_bits(mesh: "ShardMeshImpl", shape: mtf.Shape, key: Key) -> LaidOutTensor:
    """Returns a laid-out tensor of uniform uint32 values for a `key` of a `RandomState`."""
    return _from_rows(mesh, shape, lambda rows: rows.bits(key))


def random_mask(
    mesh: "ShardMeshImpl", shape: mtf.Shape, key: Key, probability: float, after: LaidOutTensor
) -> LaidOutTensor:
    """Returns a laid-out tensor of bools that are True with the given probability.

    Bits are drawn for few elements at a time, because the bits and their intermediate values need much more memory than
    the mask.

    Args:
      mesh: a `ShardMeshImpl`.
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
    """Converts random bits to uniform values in [0, 1), with as many bits as the significand of `dtype` has."""
    bit_count = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 32}[dtype]
    # The cast goes through int64, which every device supports and which is exact for all values.
    return tf.cast(tf.cast(tf.bitwise.right_shift(bits, u32(32 - bit_count)), tf.int64), dtype) * tf.cast(
        2.0**-bit_count, dtype
    )


def draw(
    mesh: "ShardMeshImpl", shape: mtf.Shape, distribution: str, key: Key, kwargs: Mapping[str, Any]
) -> LaidOutTensor:
    """Draws the values of `mtf.random_uniform` or `mtf.random_normal`.

    Args:
      mesh: a `ShardMeshImpl`.
      shape: an `mtf.Shape`.
      distribution: name of the TensorFlow function, "random_uniform" or "random_normal".
      key: a key of a `RandomState`.
      kwargs: keyword arguments of the TensorFlow function.

    Raises:
      NotSupportedError: another distribution.
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
