"""Stores the values of turns in a file, so that other turns and later stages can read them.

The file has no name: it is unlinked when it is created, so it disappears with the process. Two threads read the values
of the next turn and write those of the last one while a turn computes. Bytes go from TensorFlow's memory to the file
and back without a conversion.
"""

import concurrent.futures
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.devices import host_device
from mtf_imaging.errors import ConfigError, OutOfMemoryError, reason

IN_MEMORY = 2**20  # bytes in all turns, up to which a value stays in memory
_ALIGNMENT = 64  # of TensorFlow's tensors, in bytes
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


class Buffer:
    """An array whose memory becomes a tensor without a copy.

    Args:
      shape: the shape.
      dtype: the dtype.

    Attributes:
      array: the array.
    """

    def __init__(self, shape: Sequence[int], dtype: tf.DType) -> None:
        self._shape, self._dtype = tuple(shape), dtype
        size = int(np.prod(self._shape, dtype=np.int64)) * dtype.size
        raw = np.empty(size + _ALIGNMENT, np.uint8)
        begin = -raw.ctypes.data % _ALIGNMENT
        self.raw = raw[begin : begin + size]
        self.array = self.raw.view(dtype.as_numpy_dtype).reshape(self._shape)

    def tensor(self) -> tf.Tensor:
        """Returns the tensor; the array must not change afterwards."""
        if self._dtype == tf.bool or not self.raw.size:
            return tf.constant(self.array, self._dtype)
        itemsize = [self._dtype.size] if self._dtype.size > 1 else []  # a cast from bytes drops this dimension
        raw = self.raw.reshape([*self._shape, *itemsize])
        return tf.bitcast(tf.experimental.dlpack.from_dlpack(raw.__dlpack__()), self._dtype)


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
        return value.nbytes * self._turns <= IN_MEMORY

    def open(self) -> None:
        """Creates the file.

        Raises:
          OutOfMemoryError: the folder has too little space.
          ConfigError: the folder cannot be written.
        """
        if self._file is not None or not self.size or self._folder is None:
            return
        free = shutil.disk_usage(self._folder).free if os.path.isdir(self._folder) else 0
        try:
            handle, path = tempfile.mkstemp(prefix="mtf_imaging_", dir=self._folder)  # readable by this user alone
            os.unlink(path)
        except OSError as error:
            raise ConfigError(
                f"offload_dir '{self._folder}' cannot be written: {reason(error)}. Fix: choose another folder.",
                ["offload_dir"],
            ) from None
        if free < self.size:
            os.close(handle)
            raise OutOfMemoryError(
                f"the turns of this program store {self.size:,} bytes, but offload_dir '{self._folder}' has only "
                f"{free:,} bytes free. Fix: choose an offload_dir with more space, or recompute activations.",
                ["offload_dir"],
            )
        self._file = handle
        self._allocate(handle)

    def _allocate(self, handle: int) -> None:
        """Reserves the space, so that a disk that fills later cannot end a step."""
        with contextlib.suppress(OSError, AttributeError):  # not every file system can
            os.posix_fallocate(handle, 0, self.size)

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
                self._kept[name, turn] = tf.identity(value)  # a GPU would keep the values of all turns
            return
        raw = np.ascontiguousarray(value.numpy()).reshape(-1).view(np.uint8)
        self.written += raw.nbytes
        self._pending[name, turn] = self._threads.submit(self._write, raw, self._offsets[name] + turn * raw.nbytes)

    def fetch(self, name: str, turn: int) -> concurrent.futures.Future:
        """Returns the value of a turn as a future, which a thread reads."""
        if (name, turn) in self._kept:
            done: concurrent.futures.Future = concurrent.futures.Future()
            done.set_result(self._kept[name, turn])
            return done
        self.read += self.values[name].nbytes
        return self._threads.submit(self._read, name, turn, self._pending.get((name, turn)))

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

    def _read(self, name: str, turn: int, written: concurrent.futures.Future | None) -> tf.Tensor:
        if written is not None:
            written.result()
        assert self._file is not None
        value = self.values[name]
        buffer = Buffer(value.shape, value.dtype)
        view, offset = buffer.raw.data, self._offsets[name] + turn * value.nbytes
        while view:
            done = os.preadv(self._file, [view], offset)
            view, offset = view[done:], offset + done
        return buffer.tensor()


def _offsets(values: Mapping[str, Value], turns: int) -> tuple[dict[str, int], int]:
    """Places values in a file, so that values that are needed at the same time do not overlap.

    Returns:
      The offset of each value, and the size of the file.
    """
    placed: list[tuple[int, int, Value]] = []
    offsets, size = {}, 0
    for name, value in sorted(values.items(), key=lambda item: -item[1].nbytes):
        needed, at = value.nbytes * turns, 0
        others = sorted((b, e) for b, e, other in placed if other.begin <= value.end and value.begin <= other.end)
        for begin, end in others:
            if at + needed <= begin:
                break
            at = max(at, end)
        offsets[name] = at
        placed.append((at, at + needed, value))
        size = max(size, at + needed)
    return offsets, size
