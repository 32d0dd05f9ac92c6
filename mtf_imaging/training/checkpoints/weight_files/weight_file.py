"""The base of weight files, which reports damaged ones."""

import contextlib
import os
import pickle
import zipfile
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import tensorflow as tf
from safetensors import SafetensorError

from mtf_imaging.errors import CheckpointError, MtfImagingError, reason
from mtf_imaging.files.memory import INFLATED, check_room

# The errors that readers raise for damaged files.
_FAULTS = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ImportError, ArithmeticError),
    *(MemoryError, RuntimeError, pickle.UnpicklingError, zipfile.BadZipFile, tf.errors.OpError, SafetensorError),
)
_COPIES = 10  # Python's objects of a compressed text, in its bytes


class WeightFile:
    """The named arrays in a file of another program. Each subclass reads one kind of file.

    Args:
      path: the path of the file.

    Attributes:
      kind: the kind of file, such as "a Keras file".
      path: the same path.
      shapes: the shape of each array, by name, in alphabetical order.

    Raises:
      CheckpointError: the file is of another kind, or is damaged.
    """

    kind: ClassVar[str]

    def __init__(self, path: str) -> None:
        self.path = path
        with reading(path, f"this file is not {self.kind}, or is damaged"):
            self.shapes = self._shapes()

    def read(self, name: str) -> np.ndarray:
        """Returns an array.

        Raises:
          CheckpointError: the file is damaged.
        """
        with reading(self.path, f"'{name}' cannot be read"):
            return self._array(name)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        raise NotImplementedError

    def _array(self, name: str) -> np.ndarray:
        raise NotImplementedError


@contextlib.contextmanager
def reading(path: str, what: str) -> Iterator[None]:
    """Reports the errors of readers as damage to a file.

    Args:
      path: the path of the file.
      what: what the damage means.

    Raises:
      CheckpointError: a reader raised an error.
    """
    try:
        yield
    except MtfImagingError:
        raise
    except _FAULTS as error:
        fix = getattr(error, "fix", "") or "download or copy all of its files again"
        raise CheckpointError(f"{path}: {what}: {reason(error)}. Fix: {fix}.", ["checkpoint"]) from error


def read_member(path: str, name: str) -> bytes:
    """Returns the contents of a file in a ZIP archive, which are not larger than the archive.

    Raises:
      ValueError: they are compressed.
    """
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"'{name}' in this archive is compressed, unlike in those of PyTorch and Keras")
        check_members(path, [archive.getinfo(name)])
        return archive.read(name)


def check_members(path: str, members: Iterable[zipfile.ZipInfo]) -> None:
    """Checks that a ZIP archive can contain the files that it declares, and that they fit into memory.

    Raises:
      Fault: it cannot, or they do not.
    """
    for each in members:
        ratio, copies = (1, 2) if each.compress_type == zipfile.ZIP_STORED else (INFLATED, _COPIES)
        needed = max(each.file_size, each.compress_size)
        check_room(f"'{each.filename}' of {needed} bytes", needed, os.path.getsize(path), ratio, copies * needed)
