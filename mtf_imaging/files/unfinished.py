"""The finished parts of a long result, in a folder that outlives a killed process."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mtf_imaging.files import lock
from mtf_imaging.files.partial import kept_path, remove


class Unfinished:
    """The parts of a result that a process has finished, in order; the next process continues after them.

    Args:
      output: the file or folder of the result. The parts lie in a folder next to it.
      made_by: returns a text that determines the result. Parts of another result are dropped.
    """

    def __init__(self, output: Path, made_by: Callable[[], str]) -> None:
        self._folder, self._made_by = kept_path(output), made_by
        self._open = contextlib.ExitStack()
        self._file: BinaryIO | None = None

    def parts(self) -> Iterator[np.ndarray]:
        """Yields the parts. Then `add` continues after the last whole part.

        Raises:
          ConfigError: another process makes this result.
        """
        head, end = hashlib.sha256(self._made_by().encode()).digest(), 0
        self._open.enter_context(lock.held(self._folder, "output"))
        self._file = file = self._open.enter_context(open(self._folder / "parts", "a+b"))  # noqa: SIM115  `remove` closes it
        file.seek(0)
        if file.read(len(head)) == head:
            with contextlib.suppress(EOFError, ValueError):  # the last part is not whole
                while end := file.tell():
                    yield np.load(file, allow_pickle=False)
        file.truncate(end)
        file.write(b"" if end else head)

    def add(self, part: np.ndarray) -> None:
        """Adds a part."""
        assert self._file is not None
        np.save(self._file, part, allow_pickle=False)
        self._file.flush()

    def remove(self) -> None:
        """Deletes the parts, once the result is written."""
        self.close()
        remove(self._folder)

    def close(self) -> None:
        """Leaves the parts to the next process."""
        self._open.close()
