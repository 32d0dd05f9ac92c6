"""An array that grows, in a file once it is large."""

import tempfile
from typing import IO

import numpy as np
import numpy.typing as npt

from mtf_imaging.files.scratch import scratch_folder

_IN_MEMORY = 1 << 20  # bytes, up to which values stay in memory


class Growing:
    """A one-dimensional array whose values are added part by part.

    >>> numbers = Growing("int64")
    >>> numbers.add(np.arange(2))
    >>> numbers.add(np.arange(3))
    >>> numbers.array()
    array([0, 1, 0, 1, 2])

    Args:
      dtype: the dtype.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: list[np.ndarray] = []
        self._size = 0
        self._file: IO[bytes] | None = None

    def add(self, values: np.ndarray) -> None:
        """Adds values at the end."""
        self._parts.append(np.asarray(values, self._dtype))
        self._size += self._parts[-1].nbytes
        if self._size > _IN_MEMORY:
            self._write()

    def array(self) -> np.ndarray:
        """Returns all values, once: an array in memory, or in a file without a name."""
        if self._file is None:
            return np.concatenate([np.empty(0, self._dtype), *self._parts])
        self._write()
        with self._file as file:
            return np.memmap(file, self._dtype, "r+").view(np.ndarray)

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=scratch_folder())  # noqa: SIM115  `array` closes it
        for part in self._parts:
            self._file.write(part.tobytes())
        self._file.flush()
        self._parts, self._size = [], 0
