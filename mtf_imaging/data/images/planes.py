"""Reads regions of a file's channel as repaired values, in stored axes."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from mtf_imaging.data.images.repairs import Repair
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.data.sampling.regions import region_shape
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import faults_named


class RepairedPlanes:
    """Repaired values of one channel of a file, `[i, j, k]` in stored axes.

    Whole planes are read, in slabs along k. The faults of each plane are counted once, even if it is read several
    times.

    Args:
      stored: the stored numbers of the channel.
      make_repair: a function that returns a new repair of these numbers.

    Attributes:
      path: the file or folder, for messages.
      shape: number of voxels along each stored axis.
      dtype: type of the repaired values.
      is_stream: whether the file is compressed, so that an earlier plane can only be read from the start.
    """

    def __init__(self, stored: Stored, make_repair: Callable[[Stored], Repair]) -> None:
        self._stored, self._make_repair = stored, make_repair
        self._file = stored.open()
        self._repair = make_repair(stored)
        self._is_counted = np.zeros(stored.shape[2], bool)
        self._is_checked = False

        self.path, self.shape, self.dtype = stored.path, stored.shape, self._repair.dtype
        self.is_stream = stored.is_stream

    def read(self, region: Region) -> np.ndarray:
        """Returns the values of a region, in Fortran order like NIfTI files.

        Args:
          region: the region in stored axes. Compressed files are read fastest if consecutive regions have increasing
            positions along k.

        Raises:
          DataError: the file is damaged, or a value cannot be used. Faults of the whole file are reported by `check`.
        """
        across, along = region[:2], region[2]
        result = np.empty(region_shape(region), self.dtype, order="F")
        for planes, values in self._slabs(along):
            result[..., planes.start - along.start : planes.stop - along.start] = values[across]
        return result

    def coarser(self, least: int) -> "RepairedPlanes":
        """Returns the coarsest level of a pyramid with at least `least` voxels along an axis; without one, itself."""
        for open_level in reversed(self._stored.coarser):
            with contextlib.suppress(DataError):  # another program left the level out
                if max((level := open_level()).shape) >= least:
                    return RepairedPlanes(level, self._make_repair)
        return self

    def slabs(self) -> Iterator[np.ndarray]:
        """Yields the values of all planes in order, `[i, j, planes]`."""
        for _, values in self._slabs(slice(0, self.shape[2])):
            yield values

    def check(self) -> None:
        """Checks the whole file, and warns about repairs; reads the planes that have not been read yet.

        Raises:
          DataError: the file is damaged, or its values cannot be used.
        """
        if self._is_checked:
            return
        for start, stop in _runs(~self._is_counted):
            for _ in self._slabs(slice(start, stop)):
                pass
        self._file.check_end()
        with faults_named(self.path):
            self._repair.check()
        self._is_checked = True

    def close(self) -> None:
        """Closes the file; the next read opens it again."""
        self._file.close()

    def _slabs(self, along: slice) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes along k, repaired values of these planes)."""
        for start in range(along.start, along.stop, self._stored.slab_planes):
            planes = slice(start, min(start + self._stored.slab_planes, along.stop))
            numbers = self._file.read(planes)
            is_counted = self._is_counted[planes]
            with faults_named(self.path):
                if not is_counted.any():
                    values = self._repair(numbers)
                else:
                    values = self._make_repair(self._stored)(numbers)
                    if not is_counted.all():
                        self._repair(numbers[..., ~is_counted])
            self._is_counted[planes] = True
            yield planes, values


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Returns (start, stop) of each run of true flags."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
