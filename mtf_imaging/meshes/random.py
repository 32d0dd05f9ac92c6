"""Random numbers that do not depend on the layout.

A value is a hash of (seed, step, operation) and of its element's position in the WHOLE tensor, so it does not matter
which processor draws it, nor how many there are; a run that is resumed at a step draws what an unbroken run draws
there.
"""

import dataclasses
import math
import zlib

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import NotSupportedError
from mtf_imaging.meshes.laid_out import LaidOutTensor


def _mix(x, key=None):
    """Hashes uint32s; `key` is added halfway, lest two keys give one sequence, shifted.

    The multipliers and shifts are those of lowbias32, found by C. Wellons's search for integer hashes of low bias
    ("Prospecting for Hash Functions", 2018).
    """
    shift = tf.bitwise.right_shift
    x = tf.bitwise.bitwise_xor(x, shift(x, _u32(16))) * _u32(0x7FEB352D)
    if key is not None:
        x += key
    x = tf.bitwise.bitwise_xor(x, shift(x, _u32(15))) * _u32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, shift(x, _u32(16)))


def _u32(value):
    return tf.constant(value % 2**32, tf.uint32)


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
    index: object


class RandomState:
    """Keys for the random operations of a program.

    Args:
      seed: an int.
      step: the program's step, a tf.Tensor of int64.
      part: a `Part`, or None for the whole.
    """

    def __init__(self, seed, step, part=None):
        self.part = part
        halves = [_u32(seed), _u32(seed >> 32)]
        # uint32 of an int64 keeps its low half.
        halves += [tf.cast(step % 2**32, tf.uint32), tf.cast(step // 2**32, tf.uint32)]
        # 0, as TensorFlow cannot know. Made of constants alone, the positions of all elements of all operations would
        # be computed before the first step, and held at once, to see whether they are small enough to be kept.
        self.zero = tf.cast(tf.bitwise.right_shift(step, tf.constant(63, step.dtype)), tf.uint32)
        self._base = _u32(0)
        for half in halves:
            self._base = _mix(self._base + half + _u32(0x9E3779B9))
        self._drawn = 0

    def key(self, name):
        """The key, two uint32 scalars, of the operation of this name in this step."""
        first = _mix(tf.bitwise.bitwise_xor(self._base, _u32(zlib.crc32(name.encode()))))
        return first, _mix(first + _u32(1))

    def next_key(self):
        """A key for the next of the operations that have no name of their own at hand."""
        self._drawn += 1
        return self.key(f"draw {self._drawn}")


def _positions(dims, begins, offsets, zero):
    """Row-major positions in the whole tensor, uint32 `[n] + slice`, of slices that begin at `begins` (`[n, dims]`).

    Args:
      dims: for each dimension `(size of the whole, size of the slice)`.
      begins: array of ints.
      offsets: `{dimension number: tf.Tensor[] uint32}` to add to the begins of all slices.
      zero: see `RandomState`.
    """
    # Positions beyond 2^32 would repeat: leading dimensions are hashed by themselves and mixed in.
    inner = 0
    while math.prod(whole for whole, _ in dims[inner:]) > 2**32:
        inner += 1

    def linear(first, last):
        index = tf.zeros([len(begins)] + [1] * len(dims), tf.uint32)
        stride = 1
        for d in reversed(range(first, last)):
            whole, size = dims[d]
            values = (begins[:, d, None] + np.arange(size)) * stride % 2**32
            shape = [len(begins)] + [size if i == d else 1 for i in range(len(dims))]
            index += tf.bitwise.bitwise_xor(tf.constant(values.astype(np.uint32).reshape(shape)), zero)
            if d in offsets:
                index += offsets[d] * _u32(stride)
            stride *= whole
        return index

    index = linear(inner, len(dims))
    if inner:
        index = tf.bitwise.bitwise_xor(index, _mix(linear(0, inner) + _u32(1)))
    return index


def random_bits(mesh, shape, key, after=None):
    """A laid-out tensor of `shape` of uniform uint32s.

    Args:
      mesh: a `BlockMeshImpl`.
      shape: an `mtf.Shape`.
      key: from a `RandomState`.
      after: a laid-out tensor to wait for: the bits of a whole step could be drawn at its beginning, or those of one
        operation be shared with another that draws the same, and would take their memory all that time.
    """
    axes = mesh.split_axes(shape)
    slices = mesh.slice_shape(shape)
    part, zero = mesh.random_state.part, mesh.random_state.zero
    parts = {d: part for d, dim in enumerate(shape.dims) if part and dim.name == part.dim}
    dims = [(dim.size * (part.count if d in parts else 1), n) for d, (dim, n) in enumerate(zip(shape.dims, slices))]
    offsets = {d: tf.cast(part.index, tf.uint32) * _u32(shape.dims[d].size) for d in parts}
    stacks = []
    earlier = [[stack] for stack in after.tensor_list] if after else [[]] * len(mesh.devices)
    for block, device, known in zip(mesh.grid.block_coordinates(), mesh.devices, earlier):
        processors = mesh.grid.processor_coordinates(block) if mesh.is_split(shape) else [None]
        begins = [[0 if a is None else at[a] * n for a, n in zip(axes, slices)] for at in processors]
        with tf.device(device), tf.control_dependencies(known):
            index = _positions(dims, np.array(begins, np.int64).reshape(len(processors), len(dims)), offsets, zero)
            stacks.append(_mix(tf.bitwise.bitwise_xor(index, key[0]), key[1]))
    return LaidOutTensor(stacks)


def _uniform(bits, dtype):
    """Uniform values in [0, 1), with as many random bits as the significand of `dtype` holds."""
    kept = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 32}[dtype]
    # By way of int64: no device lacks that cast, and all values are exact.
    return tf.cast(tf.cast(tf.bitwise.right_shift(bits, _u32(32 - kept)), tf.int64), dtype) * tf.cast(2.0**-kept, dtype)


def draw(mesh, shape, distribution, key, kwargs):
    """What `mtf.random_uniform` and `mtf.random_normal` draw; `distribution` names the TensorFlow function."""
    dtype = kwargs.get("dtype", tf.float32)
    compute = dtype if dtype.is_floating else tf.float64

    def uniform(which):
        own_key = _mix(key[0] + _u32(which)), _mix(key[1] + _u32(which))
        return mesh.map_stacks(lambda bits: _uniform(bits, compute), random_bits(mesh, shape, own_key))

    if distribution == "random_uniform":
        low = kwargs.get("minval", 0)
        high = kwargs.get("maxval", None)
        high = 1 if high is None else high

        def scale(u):
            values = u * tf.cast(high - low, compute) + tf.cast(low, compute)
            return values if dtype.is_floating else tf.cast(tf.floor(values), dtype)

        return mesh.map_stacks(scale, uniform(0))
    if distribution == "random_normal":
        mean, stddev = kwargs.get("mean", 0.0), kwargs.get("stddev", 1.0)

        def box_muller(u, v):
            radius = tf.sqrt(-2 * tf.math.log1p(-u))
            return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * radius * tf.cos(tf.cast(2 * np.pi, dtype) * v)

        return mesh.map_stacks(box_muller, uniform(0), uniform(1))
    raise NotSupportedError(
        f"random values of {distribution!r} are not supported: draw 'random_uniform' or 'random_normal'"
    )
