"""Large arrays in blocks, so that a box of voxels lies in a few places of a file, whatever its direction."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mtf_imaging.files.scratch import file_array, scratch_folder

Region = tuple[slice, ...]

IN_MEMORY = 64 << 20  # bytes, up to which an array stays in memory
_SIDE = 64  # voxels of a block along each axis
_ROWS = 4  # rows that are copied at a time


class Readable(Protocol):
    """An array in memory, or another one that is read by region."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""

    def __getitem__(self, region: Region, /) -> np.ndarray:
        """Returns a region, as an array."""


class Blocks:
    """An array `[x, y, z, ...]` of zeros in a file, which is written and read by region like an array in memory.

    Args:
      shape: the shape; the axes after the third one are not divided.
      dtype: the dtype.

    Attributes:
      shape: the shape.
      dtype: the dtype.
    """

    def __init__(self, shape: Sequence[int], dtype: npt.DTypeLike) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        counts = [-(-size // _SIDE) for size in self.shape[:3]]
        self._sides = tuple(-(-size // count) for size, count in zip(self.shape, counts, strict=False))
        self._blocks = file_array([*counts, *self._sides, *self.shape[3:]], self.dtype, scratch_folder())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, region: Region, values: np.ndarray, /) -> None:
        region = bounds(region, self.shape)
        values = np.broadcast_to(values, [at.stop - at.start for at in region])
        for index, of_block, of_region in overlaps(region[:3], self._sides):
            self._blocks[index][(*of_block, *region[3:])] = values[of_region]

    def __getitem__(self, region: Region, /) -> np.ndarray:
        region = bounds(region, self.shape)
        result = np.empty([at.stop - at.start for at in region], self.dtype)
        for index, of_block, of_region in overlaps(region[:3], self._sides):
            result[of_region] = self._blocks[index][(*of_block, *region[3:])]
        return result

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Returns all voxels in another file, in C order."""
        assert copy is not False
        whole = file_array(self.shape, dtype or self.dtype, scratch_folder())
        for start in range(0, self.shape[0], self._sides[0]):
            rows = (slice(start, min(start + self._sides[0], self.shape[0])),)
            whole[rows] = self[rows]
        return whole


#: An array in memory or in a file; both are read and written by region.
Voxels = np.ndarray | Blocks


def is_small(shape: Sequence[int], dtype: npt.DTypeLike) -> bool:
    """Returns whether an array stays in memory."""
    return math.prod(shape) * np.dtype(dtype).itemsize <= IN_MEMORY


def working_array(shape: Sequence[int], dtype: npt.DTypeLike) -> Any:
    """Returns an array `[x, y, z, ...]` of zeros: in memory, or as `Blocks` if it is large."""
    return np.zeros(shape, dtype) if is_small(shape, dtype) else Blocks(shape, dtype)


def copy_rows(target: Voxels, rows: slice, source: Voxels, first: int = 0) -> None:
    """Copies values along the first axis, a few at a time.

    Args:
      target: the array that is changed.
      rows: its rows.
      source: the array of the values.
      first: the first row of the source.
    """
    for start in range(rows.start, rows.stop, _ROWS):
        stop = min(start + _ROWS, rows.stop)
        at = first + start - rows.start
        target[start:stop,] = source[at : at + stop - start,]


def bounds(region: Region, shape: Sequence[int]) -> Region:
    """Returns a region with the start and the stop of each slice, and with all axes."""
    missing = [slice(None)] * (len(shape) - len(region))
    return tuple(slice(*at.indices(size)[:2]) for at, size in zip([*region, *missing], shape, strict=True))


def overlaps(region: Region, sides: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Region, Region]]:
    """Yields (block index, its voxels in the region, their place in the region) for the blocks in a region.

    >>> list(overlaps((slice(3, 9),), [8]))
    [((0,), (slice(3, 8, None),), (slice(0, 5, None),)), ((1,), (slice(0, 1, None),), (slice(5, 6, None),))]

    Args:
      region: the region.
      sides: voxels of a block along each axis of the region.
    """
    axes: list[list[tuple[int, slice, slice]]] = []
    for at, side in zip(region, sides, strict=True):
        axes.append([])
        for index in range(at.start // side, -(-at.stop // side) if at.stop > at.start else 0):
            first = index * side
            start, stop = max(at.start, first), min(at.stop, first + side)
            axes[-1].append((index, slice(start - first, stop - first), slice(start - at.start, stop - at.start)))
    for parts in itertools.product(*axes):
        index, of_block, of_region = zip(*parts, strict=True)
        yield index, of_block, of_region
