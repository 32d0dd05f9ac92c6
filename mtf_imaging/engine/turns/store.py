"""Stores the values of turns in a file, so that other turns and later stages can read them.

Files have no name: they are unlinked when they are created, so they disappear with the process. Two threads read the
values of the next turn and write those of the last one while a turn computes. A stored value is read without a copy:
the tensor lies in the pages of the file.
"""

import concurrent.futures
import contextlib
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.devices import host_device
from mtf_imaging.errors import OutOfMemoryError, reason
from mtf_imaging.files.scratch import aligned_array, file_array, reserve

IN_MEMORY = 2**20  # bytes in all turns, up to which a value stays in memory
_PAGE = mmap.ALLOCATIONGRANULARITY
_THREADS = 2


class Value(NamedTuple):
    """A tensor that every turn computes.

    Attributes:
      shape: the shape.
      dtype: the dtype.
      begin: the first stage that needs room for it.
      end: the last stage that reads it.
    """

    shape: tuple[int, ...]
    dtype: tf.DType
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.size

    @property
    def room(self) -> int:
        """Bytes of a turn in the file: whole pages."""
        return -(-self.nbytes // _PAGE) * _PAGE


def is_large(nbytes: int) -> bool:
    """Returns whether a value with a size in bytes, of all turns together, waits in a file."""
    return nbytes > IN_MEMORY


def extent(shape: Sequence[int], itemsize: int, begin: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """Returns the bytes (first, end) of a tensor from the first to the last element of a slice that is not empty."""
    last = [b + n - 1 for b, n in zip(begin, size, strict=True)]
    first, end = (int(np.ravel_multi_index(tuple(at), tuple(shape))) for at in (begin, last))
    return first * itemsize, (end + 1) * itemsize


def as_tensor(array: np.ndarray) -> tf.Tensor:
    """Returns the tensor in the memory of an array, which must not change afterwards; only bool is copied."""
    dtype = tf.as_dtype(array.dtype)
    if dtype == tf.bool or not array.size:
        return tf.constant(array, dtype)
    itemsize = [dtype.size] if dtype.size > 1 else []  # a cast from bytes drops this dimension
    raw = array.reshape(-1).view(np.uint8).reshape([*array.shape, *itemsize])
    return tf.bitcast(tf.experimental.dlpack.from_dlpack(raw.__dlpack__()), dtype)


class Store:
    """Room for the values of all turns.

    Args:
      values: {name: `Value`}.
      turns: number of turns.
      folder: the folder of the file; None for memory.

    Attributes:
      values: {name: `Value`}.
      size: bytes of the file.
      written: bytes that were written so far.
      read: bytes that were read so far.
    """

    def __init__(self, values: Mapping[str, Value], turns: int, folder: str | None) -> None:
        self.values, self._turns, self._folder = values, turns, folder
        stored = [name for name, value in values.items() if not self.is_kept(value)]
        self._offsets, self.size = _offsets({name: values[name] for name in stored}, turns)
        self._kept: dict[tuple[str, int], tf.Tensor] = {}
        self._pending: dict[tuple[str, int], concurrent.futures.Future] = {}
        self._file: int | None = None
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, "turns")
        self.written = self.read = 0

    def is_kept(self, value: Value) -> bool:
        """Returns whether a value is too small for the file."""
        return not is_large(value.nbytes * self._turns)

    def open(self) -> None:
        """Creates the file of the stored values.

        Raises:
          OutOfMemoryError: the folder has too little space.
          ConfigError: the folder cannot be written.
        """
        if self._file is not None or not self.size or self._folder is None:
            return
        need, fix = "the turns of this program store", ", or recompute activations"
        self._file = reserve(self.size, self._folder, need, "offload_dir", fix)

    def empty(self, shape: Sequence[int], dtype: tf.DType) -> np.ndarray:
        """Returns an array that `as_tensor` does not copy; a large one lies in a file of its own.

        Raises:
          OutOfMemoryError: the folder has too little space.
        """
        size = int(np.prod(shape, dtype=np.int64)) * dtype.size
        if not is_large(size) or self._folder is None:
            return aligned_array(shape, dtype.as_numpy_dtype)
        return file_array(shape, dtype.as_numpy_dtype, self._folder, "offload_dir")

    def close(self) -> None:
        """Waits for the threads and drops all values."""
        self._threads.shutdown(cancel_futures=True)
        self._kept, self._pending = {}, {}
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be ending
            self.close()

    def put(self, name: str, turn: int, value: tf.Tensor) -> None:
        """Stores the value of a turn."""
        if name not in self._offsets or self._folder is None:
            with tf.device(host_device()):
                self._kept[name, turn] = tf.identity(self.own(value))  # a GPU would keep the values of all turns
            return
        raw = np.asarray(value).reshape(-1).view(np.uint8)
        self.written += raw.nbytes
        self._pending[name, turn] = self._threads.submit(self._write, raw, self._offset(name, turn))

    def own(self, value: tf.Tensor) -> tf.Tensor:
        """Returns a value in memory of its own: an operation may pass on pages of the file, which will change."""
        return value if self._folder is None else tf.constant(np.array(value))

    def fetch(
        self,
        name: str,
        turn: int,
        extents: Sequence[tuple[int, int]],
        part: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> concurrent.futures.Future:
        """Returns the value of a turn as a future, which a thread reads.

        Args:
          name: name of the value.
          turn: the turn.
          extents: the bytes (first, end) that will be used.
          part: begin and size of the slice to return; None for the whole value.
        """
        if (name, turn) in self._kept:
            done: concurrent.futures.Future = concurrent.futures.Future()
            done.set_result(_part(self._kept[name, turn], part))
            return done
        if part is not None:
            value = self.values[name]
            extents = [extent(value.shape, value.dtype.size, *part)]
        self.read += sum(end - first for first, end in extents)
        return self._threads.submit(self._read, name, turn, extents, part, self._pending.get((name, turn)))

    def settle(self, turn: int) -> None:
        """Waits until all values of a turn are written."""
        for key in [key for key in self._pending if key[1] == turn]:
            self._pending.pop(key).result()

    def forget(self) -> None:
        """Drops all values, after a call that failed."""
        concurrent.futures.wait(self._pending.values())
        self._pending, self._kept = {}, {}

    def drop(self, names: Iterable[str]) -> None:
        """Drops values that nothing reads again."""
        for name in names:
            for turn in range(self._turns):
                self._kept.pop((name, turn), None)

    def _write(self, raw: np.ndarray, offset: int) -> None:
        assert self._file is not None
        view = raw.data
        while view:
            try:
                done = os.pwrite(self._file, view, offset)
            except OSError as error:
                raise OutOfMemoryError(
                    f"a turn cannot store its values in offload_dir '{self._folder}': {reason(error)}. Fix: free space "
                    "there, or choose another offload_dir; the last checkpoint is intact.",
                    ["offload_dir"],
                ) from None
            view, offset = view[done:], offset + done

    def _read(
        self,
        name: str,
        turn: int,
        extents: Sequence[tuple[int, int]],
        part: tuple[Sequence[int], Sequence[int]] | None,
        written: concurrent.futures.Future | None,
    ) -> tf.Tensor:
        if written is not None:
            written.result()
        assert self._file is not None
        value = self.values[name]
        # In a private mapping, an operation that reuses the memory of its input does not change the file.
        mapped = mmap.mmap(self._file, value.nbytes, access=mmap.ACCESS_COPY, offset=self._offset(name, turn))
        raw = np.frombuffer(mapped, np.uint8)
        for first, end in extents:
            begin = first // _PAGE * _PAGE
            mapped.madvise(mmap.MADV_WILLNEED, begin, end - begin)
            raw[begin:end:_PAGE].max()  # waits until the pages are in memory
        return _part(as_tensor(raw.view(value.dtype.as_numpy_dtype).reshape(value.shape)), part)

    def _offset(self, name: str, turn: int) -> int:
        return self._offsets[name] + turn * self.values[name].room


def _part(x: tf.Tensor, part: tuple[Sequence[int], Sequence[int]] | None) -> tf.Tensor:
    with tf.device(host_device()):
        return x if part is None else tf.slice(x, *part)


def _offsets(values: Mapping[str, Value], turns: int) -> tuple[dict[str, int], int]:
    """Places values in a file, so that values that are needed at the same time do not overlap.

    Returns:
      The offset of each value, and the size of the file.
    """
    placed: list[tuple[int, int, Value]] = []
    offsets, size = {}, 0
    for name, value in sorted(values.items(), key=lambda item: -item[1].nbytes):
        needed, at = value.room * turns, 0
        others = sorted((b, e) for b, e, other in placed if other.begin <= value.end and value.begin <= other.end)
        for begin, end in others:
            if at + needed <= begin:
                break
            at = max(at, end)
        offsets[name] = at
        placed.append((at, at + needed, value))
        size = max(size, at + needed)
    return offsets, size
