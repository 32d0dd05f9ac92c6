"""The state of random operations: a key for each operation, and the positions of the elements in its output."""

import contextlib
import dataclasses
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.random.positions import Key, Rows, mix, slice_rows, u32

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
          number: tf.Tensor[] int32, the number of a loop iteration, from 0. Blocks of nested loops are nested.
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

    def rows(
        self,
        shape: mtf.Shape,
        slices: Sequence[int],
        begins: np.ndarray,
        offsets: Mapping[int, tf.Tensor],
        device: str,
    ) -> Rows:
        """Returns the elements in a tensor's slices. Tensors with the same shape share them.

        Args:
          shape: shape of the whole tensor, or of one micro-batch of it.
          slices: shape of a slice.
          begins: integer array `[slices, dims]`, the position of the first element of each slice.
          offsets: {dimension number: Tensor[] uint32} to add to the begins of all slices.
          device: the device that computes the positions.
        """
        parts = {d: self.part for d, dim in enumerate(shape.dims) if self.part and dim.name == self.part.dim}
        wholes = [dim.size * (parts[d].count if d in parts else 1) for d, dim in enumerate(shape.dims)]
        dims = tuple(zip(wholes, slices, strict=True))
        cache_key = tf.compat.v1.get_default_graph(), device, dims, tuple(parts), tuple(offsets), begins.tobytes()
        if cache_key not in self._rows:
            with tf.device(device):
                of_parts = {d: tf.cast(part.index, tf.uint32) * u32(shape.dims[d].size) for d, part in parts.items()}
                both = {d: of_parts.get(d, u32(0)) + offsets.get(d, u32(0)) for d in {**of_parts, **offsets}}
                self._rows[cache_key] = slice_rows(dims, begins, both, self.zero)
        return self._rows[cache_key]
