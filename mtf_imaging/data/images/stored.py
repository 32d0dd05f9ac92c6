"""The stored numbers of an image, which are read plane by plane to save memory.

A scan of 512 x 512 x 1000 voxels takes 0.5 GB as int16, its type in memory, but up to 2 GB in its stored type.
"""

import abc
from pathlib import Path
from typing import Protocol

import numpy as np

_SLAB_VOXELS = 1 << 21  # 16 MiB as float64; a few copies exist at the same time


class Planes(Protocol):
    """Reads planes of stored numbers; may keep a file open in between."""

    def read(self, planes: slice) -> np.ndarray:
        """Returns the stored numbers `[i, j, planes]` in a range of planes along k.

        Raises:
          DataError: a file is missing or damaged.
        """

    def check_end(self) -> None:
        """Checks the end of the file; call it after the last plane has been read.

        Raises:
          DataError: the file is damaged.
        """

    def close(self) -> None:
        """Closes the file; the next read opens it again."""


class Stored(abc.ABC):
    """The stored numbers of one channel, `[i, j, k]`; they are read in slabs along k."""

    path: Path

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each stored axis, without the channel axis."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype:
        """Type of the stored numbers, including the byte order."""

    @abc.abstractmethod
    def open(self) -> Planes:
        """Returns a reader of the planes."""

    @property
    def scale(self) -> tuple[float, float]:
        """(slope, inter): a stored number represents the value `slope * number + inter`."""
        return 1.0, 0.0

    @property
    def modality(self) -> str | None:
        """The modality that the file states, in DICOM's spelling; None if it does not state one."""
        return None

    @property
    def is_scaled(self) -> bool:
        return self.scale != (1.0, 0.0)

    @property
    def is_stream(self) -> bool:
        """Whether an earlier plane can only be read from the start of the file."""
        return False

    @property
    def size(self) -> int:
        """Number of voxels."""
        return int(np.prod(self.shape))

    @property
    def slab_planes(self) -> int:
        """Number of planes along k that are read at a time, which limits memory."""
        return max(1, _SLAB_VOXELS // (self.shape[0] * self.shape[1]))

    def scaled(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the values of stored numbers: float64 if the file is scaled, otherwise the numbers themselves."""
        slope, inter = self.scale
        return numbers * np.float64(slope) + inter if self.is_scaled else numbers
