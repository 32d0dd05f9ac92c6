"""Random bits for positions in a whole tensor: a hash, and the positions of the elements of slices, in rows."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

Key = tuple[tf.Tensor, tf.Tensor]  # two uint32 scalars
AT_ONCE = 2**20  # number of elements whose positions and bits fit into the cache of a CPU


def u32(value: int) -> tf.Tensor:
    return tf.constant(value % 2**32, tf.uint32)


def mix(x: tf.Tensor, key: tf.Tensor | None = None) -> tf.Tensor:
    """Hashes uint32 values.

    The key is added after the first multiplication. If it were added to the input, two keys could produce the same
    sequence, shifted. The multipliers and shifts are those of lowbias32, which C. Wellons found in a search for integer
    hashes with low bias ("Prospecting for Hash Functions", 2018).

    Args:
      x: uint32 values.
      key: a uint32 scalar, or None.
    """
    shift = tf.bitwise.right_shift
    x = tf.bitwise.bitwise_xor(x, shift(x, u32(16))) * u32(0x7FEB352D)
    if key is not None:
        x += key
    x = tf.bitwise.bitwise_xor(x, shift(x, u32(15))) * u32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, shift(x, u32(16)))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Elements of slices, in rows of at most `AT_ONCE` elements.

    The position of element i of a row in the whole tensor is `(first + rest[i]) xor salt`.

    Attributes:
      first: uint32 `[rows, 1]`.
      salt: uint32 `[rows, 1]`, a hash of the leading dimensions if positions exceed 2^32 and would repeat, else 0.
      rest: uint32 `[elements of a row]`.
    """

    first: tf.Tensor
    salt: tf.Tensor
    rest: tf.Tensor

    def bits(self, key: Key) -> tf.Tensor:
        """Returns random bits of all elements, uint32 `[rows, elements]`, for a key of two uint32 scalars."""
        positions = tf.bitwise.bitwise_xor(self.first + self.rest, self.salt)
        return mix(tf.bitwise.bitwise_xor(positions, key[0]), key[1])

    def map(self, fn: Callable[["Rows"], tf.Tensor], dtype: tf.DType) -> tf.Tensor:
        """Calls `fn(Rows)` on groups of rows with at most `AT_ONCE` elements and joins the results."""
        rows, elements = self.first.shape[0], self.rest.shape[0]
        at_once = max(n for n in range(1, min(rows, AT_ONCE // elements) + 1) if rows % n == 0)
        if at_once == rows:
            return fn(self)
        groups = [tf.reshape(x, [-1, at_once, 1]) for x in (self.first, self.salt)]
        return tf.map_fn(
            lambda group: fn(Rows(group[0], group[1], self.rest)),
            groups,
            parallel_iterations=1,
            fn_output_signature=dtype,
        )


def slice_rows(
    dims: Sequence[tuple[int, int]], begins: np.ndarray, offsets: Mapping[int, tf.Tensor], zero: tf.Tensor
) -> Rows:
    """Returns the elements of slices as `Rows`.

    Args:
      dims: `(size of the whole tensor, size of a slice)` for each dimension.
      begins: integer array `[slices, dims]`, the position of the first element of each slice.
      offsets: `{dimension number: tf.Tensor[] uint32}` to add to the begins of all slices.
      zero: a tensor that is 0, which TensorFlow's constant folding cannot know. With constants alone, constant folding
        would compute the positions of all elements of all operations before the first step and keep them in memory.
    """
    inner = 0
    while math.prod(whole for whole, _ in dims[inner:]) > 2**32:
        inner += 1
    split = inner
    while math.prod(size for _, size in dims[split:]) > AT_ONCE:
        split += 1
    strides = [math.prod(whole for whole, _ in dims[d + 1 : inner if d < inner else None]) for d in range(len(dims))]

    def starts(low: int, high: int) -> tf.Tensor:
        """Returns the positions of the first elements of the slices, `[slices]`, counted along some dimensions."""
        along = sum((begins[:, d] * strides[d] for d in range(low, high)), np.zeros(len(begins), np.int64))
        moved = [offsets[d] * u32(strides[d]) for d in offsets if low <= d < high]
        return sum(moved, tf.constant((along % 2**32).astype(np.uint32)))

    def within(low: int, high: int) -> tf.Tensor:
        """Returns the distances of the elements of a slice from its first element, counted along some dimensions."""
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
    salt += np.zeros(first.shape, np.uint32)  # tf.broadcast_to and tf.zeros have no uint32 kernels on GPUs
    return Rows(tf.reshape(first, [-1, 1]), tf.reshape(salt, [-1, 1]), within(split, len(dims)))
