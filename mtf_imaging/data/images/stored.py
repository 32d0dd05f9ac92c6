"""The stored numbers of an image, which are read plane by plane to save memory.

A scan of 512 x 512 x 1000 voxels takes 0.5 GB as int16, its type in memory, but up to 2 GB in its stored type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_SLAB_VOXELS = 1 << 21  # 16 MiB as float64; a few copies exist at the same time


class Planes:
    """Reads planes of stored numbers; may keep a file open in between."""

    def read(self, planes: slice) -> np.ndarray:
        """Returns the stored numbers `[i, j, planes]` in a range of planes along k.

        Raises:
          DataError: a file is missing or damaged.
        """
        raise NotImplementedError

    def check_end(self) -> None:
        """Checks the end of the file after the last plane; by default nothing, because every plane is checked.

        Raises:
          DataError: the file is damaged.
        """

    def close(self) -> None:
        """Closes the file, and frees its numbers; the next read opens it again."""


class WholePlanes(Planes):
    """Planes of a file that can only be read as a whole.

    Args:
      read_whole: a function that returns all stored numbers, `[i, j, k]`; the first read calls it.
    """

    def __init__(self, read_whole: Callable[[], np.ndarray]) -> None:
        self._read_whole = read_whole
        self._whole: np.ndarray | None = None

    def read(self, planes: slice) -> np.ndarray:
        if self._whole is None:
            self._whole = self._read_whole()
        return self._whole[..., planes]

    def close(self) -> None:
        self._whole = None


@dataclass(frozen=True)
class Stored:
    """The stored numbers of one channel, `[i, j, k]`; they are read in slabs along k.

    Attributes:
      path: the file or folder, for messages.
      shape: number of voxels along each stored axis, without the channel axis.
      dtype: type of the stored numbers, including the byte order.
      open: a function that returns a reader of the planes.
      scale: (slope, inter); a stored number represents the value `slope * number + inter`.
      modality: the modality that the file states, in DICOM's spelling; None if it does not state one.
      is_stream: whether an earlier plane can only be read from the start of the file.
      names: the names of labels that the file states, by value; see `formats.label_names`.
      coarser: functions that open the other levels of a pyramid, from fine to coarse.
    """

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype
    open: Callable[[], Planes]
    scale: tuple[float, float] = (1.0, 0.0)
    modality: str | None = None
    is_stream: bool = False
    names: Mapping[int, str] = field(default_factory=dict)
    coarser: tuple[Callable[[], "Stored"], ...] = ()

    @property
    def is_scaled(self) -> bool:
        return self.scale != (1.0, 0.0)

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
