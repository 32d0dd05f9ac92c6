"""Random bits for positions in a whole tensor: a hash, and the element positions of slices, in rows."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

Key = tuple[tf.Tensor, tf.Tensor]  # two uint32 scalars
AT_ONCE = 2**20  # number of elements whose positions and bits fit into the cache of a CPU
_SPREAD = 0x9E3779B1  # positions are stored as multiples of this odd number (Knuth 1973, section 6.4)
_MULTIPLIER = 0x846CA68B  # constants of lowbias32, by C. Wellons ("Prospecting for Hash Functions", 2018)


def u32(value: int) -> tf.Tensor:
    return tf.constant(value % 2**32, tf.uint32)


def mix(x: tf.Tensor) -> tf.Tensor:
    """Hashes uint32 values with lowbias32 (see `_MULTIPLIER`)."""
    x = _fold(x, 16) * u32(0x7FEB352D)
    return _fold(_fold(x, 15) * u32(_MULTIPLIER), 16)


def _fold(x: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, u32(bits)))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Elements of slices, in rows of at most `AT_ONCE` elements.

    `first + rest[i]` is the position of element i of a row in the whole tensor, times an odd number.

    Attributes:
      first: uint32 `[rows, 1]`.
      salt: uint32, a hash `[rows, 1]` of the leading dimensions if positions exceed 2^32 and would repeat, else 0.
      rest: uint32 `[elements of a row]`.
    """

    first: tf.Tensor
    salt: tf.Tensor
    rest: tf.Tensor

    def bits(self, key: Key) -> tf.Tensor:
        """Returns random bits of all elements, uint32 `[rows, elements]`, for a key of two uint32 scalars.

        The hash takes few passes over the elements, because dropout draws as many bits as the network has activations.
        Positions are multiplied before they are added up, in the constants of `slice_rows`. The second part of the key
        is a multiplier, so two keys never produce shifted copies of the same sequence. The upper bits are the best.
        """
        multiplier = tf.bitwise.bitwise_or(tf.bitwise.bitwise_xor(self.salt, key[1]), u32(1))
        x = self.first + key[0] + self.rest
        return _fold(_fold(x, 16) * multiplier, 15) * u32(_MULTIPLIER)

    def map(self, fn: Callable[["Rows"], tf.Tensor], dtype: tf.DType) -> tf.Tensor:
        """Calls `fn(Rows)` on groups of rows with at most `AT_ONCE` elements and joins the results."""
        rows, elements = self.first.shape[0], self.rest.shape[0]
        at_once = max(n for n in range(1, min(rows, AT_ONCE // elements) + 1) if rows % n == 0)
        if at_once == rows:
            return fn(self)
        columns = {"first": self.first, "salt": self.salt}
        groups = {name: tf.reshape(x, [-1, at_once, 1]) for name, x in columns.items() if x.shape.rank}
        return tf.map_fn(
            lambda group: fn(dataclasses.replace(self, **group)),
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
      zero: a tensor that is 0, which TensorFlow's constant folding cannot detect. With constants alone, constant
        folding would compute all element positions of all operations before the first step and keep them in
        memory.
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
        along = sum((_multiples(begins[:, d], strides[d]) for d in range(low, high)), np.zeros(len(begins), np.uint32))
        moved = [offsets[d] * u32(_SPREAD * strides[d]) for d in offsets if low <= d < high]
        return sum(moved, tf.constant(along))

    def within(low: int, high: int) -> tf.Tensor:
        """Returns the distances between a slice's elements and its first element, counted along some dimensions."""
        index = tf.zeros([1] * (high - low), tf.uint32)
        for d in range(low, high):
            values = _multiples(np.arange(dims[d][1]), strides[d])
            shape = [-1 if i == d else 1 for i in range(low, high)]
            index += tf.reshape(tf.bitwise.bitwise_xor(tf.constant(values), zero), shape)
        return tf.reshape(index, [-1])

    first, salt = starts(inner, len(dims))[:, None, None] + within(inner, split), u32(0)
    if inner:
        salt = mix(starts(0, inner)[:, None] + within(0, inner) + u32(1))[:, :, None]
        # tf.broadcast_to has no uint32 kernel on GPUs.
        first += np.zeros([len(begins), salt.shape[1], first.shape[2]], np.uint32)
        salt = tf.reshape(salt + np.zeros(first.shape, np.uint32), [-1, 1])
    return Rows(tf.reshape(first, [-1, 1]), salt, within(split, len(dims)))


def _multiples(index: np.ndarray, stride: int) -> np.ndarray:
    """Returns `index * stride * _SPREAD` modulo 2^32."""
    return (index.astype(np.uint64) * np.uint64(stride * _SPREAD % 2**32)).astype(np.uint32)
