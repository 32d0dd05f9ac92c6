"""Random bits of positions in a whole tensor: a hash, and the positions of a slice's elements, a row at a time."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

Key = tuple[tf.Tensor, tf.Tensor]  # two uint32 scalars
AT_ONCE = 2**20  # elements: their positions and bits stay in a processor's cache


def u32(value: int) -> tf.Tensor:
    return tf.constant(value % 2**32, tf.uint32)


def mix(x: tf.Tensor, key: tf.Tensor | None = None) -> tf.Tensor:
    """Hashes uint32s; `key` is added halfway, lest two keys give one sequence, shifted.

    The multipliers and shifts are those of lowbias32, found by C. Wellons's search for integer hashes of low bias
    ("Prospecting for Hash Functions", 2018).
    """
    shift = tf.bitwise.right_shift
    x = tf.bitwise.bitwise_xor(x, shift(x, u32(16))) * u32(0x7FEB352D)
    if key is not None:
        x += key
    x = tf.bitwise.bitwise_xor(x, shift(x, u32(15))) * u32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, shift(x, u32(16)))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Elements of slices, in rows of at most `AT_ONCE`.

    Element i of a row is at position `(first + rest[i]) xor salt` of the whole tensor.

    Attributes:
      first: uint32 `[rows]`.
      salt: uint32 `[rows]`, what is hashed of leading dimensions where positions beyond 2^32 would repeat, else 0.
      rest: uint32 `[elements of a row]`.
    """

    first: tf.Tensor
    salt: tf.Tensor
    rest: tf.Tensor

    def bits(self, key: Key) -> tf.Tensor:
        """Random bits of all elements: uint32 `[rows, elements]`; `key` of two uint32 scalars."""
        positions = tf.bitwise.bitwise_xor(self.first[:, None] + self.rest, self.salt[:, None])
        return mix(tf.bitwise.bitwise_xor(positions, key[0]), key[1])

    def map(self, fn: Callable[["Rows"], tf.Tensor], dtype: tf.DType) -> tf.Tensor:
        """`fn(Rows)`, of as many rows at a time as make `AT_ONCE` elements, for all rows."""
        rows, elements = self.first.shape[0], self.rest.shape[0]
        at_once = max(n for n in range(1, min(rows, AT_ONCE // elements) + 1) if rows % n == 0)
        if at_once == rows:
            return fn(self)
        groups = [tf.reshape(x, [-1, at_once]) for x in (self.first, self.salt)]
        return tf.map_fn(
            lambda group: fn(Rows(group[0], group[1], self.rest)),
            groups,
            parallel_iterations=1,
            fn_output_signature=dtype,
        )


def rows_of(
    dims: Sequence[tuple[int, int]], begins: np.ndarray, offsets: Mapping[int, tf.Tensor], zero: tf.Tensor
) -> Rows:
    """The elements of slices as `Rows`.

    Args:
      dims: for each dimension `(size of the whole, size of the slice)`.
      begins: array of ints `[slices, dims]`, where the slices begin.
      offsets: `{dimension number: tf.Tensor[] uint32}` to add to the begins of all slices.
      zero: 0, as TensorFlow cannot know. Made of constants alone, the positions of all elements of all operations would
        be computed before the first step, and held at once, to see whether they are small enough to be kept.
    """
    inner = 0
    while math.prod(whole for whole, _ in dims[inner:]) > 2**32:
        inner += 1
    split = inner
    while math.prod(size for _, size in dims[split:]) > AT_ONCE:
        split += 1
    strides = [math.prod(whole for whole, _ in dims[d + 1 : inner if d < inner else None]) for d in range(len(dims))]

    def starts(low: int, high: int) -> tf.Tensor:
        """`[slices]`: positions of the slices' first elements, along some dimensions."""
        along = sum((begins[:, d] * strides[d] for d in range(low, high)), np.zeros(len(begins), np.int64))
        moved = [offsets[d] * u32(strides[d]) for d in offsets if low <= d < high]
        return sum(moved, tf.constant((along % 2**32).astype(np.uint32)))

    def within(low: int, high: int) -> tf.Tensor:
        """How far the elements of a slice are from its first, along some dimensions."""
        index = tf.zeros([1] * (high - low), tf.uint32)
        for d in range(low, high):
            values = (np.arange(dims[d][1]) * strides[d] % 2**32).astype(np.uint32)
            shape = [-1 if i == d else 1 for i in range(low, high)]
            index += tf.reshape(tf.bitwise.bitwise_xor(tf.constant(values), zero), shape)
        return tf.reshape(index, [-1])

    first = starts(inner, len(dims))[:, None, None] + within(inner, split)
    salt = tf.zeros([1, 1, 1], tf.uint32)
    if inner:
        salt = mix(starts(0, inner)[:, None] + within(0, inner) + u32(1))[:, :, None]
        first += np.zeros([len(begins), salt.shape[1], first.shape[2]], np.uint32)
    salt += np.zeros(first.shape, np.uint32)  # tf.broadcast_to and tf.zeros have no kernels of uint32 on GPUs
    return Rows(tf.reshape(first, [-1]), tf.reshape(salt, [-1]), within(split, len(dims)))
