"""The interface of a weight file, and the errors for files that cannot be read."""

import pickle
import zipfile
from typing import Protocol

import numpy as np

from mtf_imaging.errors import CheckpointError, reason

# The errors that Python's and HDF5's readers raise for damaged files.
FAULTS = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ImportError, ArithmeticError),
    *(MemoryError, RuntimeError, pickle.UnpicklingError, zipfile.BadZipFile),
)


class WeightFile(Protocol):
    """The named arrays in a file of another program.

    Attributes:
      path: the path of the file.
      shapes: the shape of each array, by name, in alphabetical order.
    """

    @property
    def path(self) -> str: ...

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]: ...

    def read(self, name: str) -> np.ndarray:
        """Returns an array.

        Raises:
          CheckpointError: the file is damaged.
        """
        ...


def read_member(path: str, name: str) -> bytes:
    """Returns the contents of a file in a ZIP archive, which are not larger than the archive.

    Raises:
      ValueError: they are compressed.
    """
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"'{name}' in this archive is compressed, unlike in those of PyTorch and Keras")
        return archive.read(name)


def damaged(path: str, kind: str, error: Exception | str) -> CheckpointError:
    """Returns the error for a file that is damaged or of another kind.

    Args:
      path: the path of the file.
      kind: the expected kind, such as "a TensorFlow checkpoint".
      error: the reason.
    """
    why = error if isinstance(error, str) else reason(error)
    return CheckpointError(
        f"{path}: this file is not {kind}, or is damaged: {why}. Fix: download or copy all of its files again.",
        settings=["checkpoint"],
    )


def damaged_array(path: str, name: str, error: Exception | str) -> CheckpointError:
    """Returns the error for an array that cannot be read."""
    why = error if isinstance(error, str) else reason(error)
    return CheckpointError(
        f"{path}: '{name}' cannot be read: {why}. Fix: download or copy all of its files again.",
        settings=["checkpoint"],
    )
