"""Volumes that are read in parts: arrays, and objects that can be sliced like arrays.

Scoring reads a volume in slabs along its first axis, in order. Only surface points and tables of components are kept,
so memory hardly grows with the volume. The results do not depend on the thickness of the slabs.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

SLAB_VOXELS = 1 << 22  # a slab needs about 30 bytes of memory per voxel

Region = tuple[slice, ...]  # one slice per axis, with start and stop


class Voxels(Protocol):
    """A volume that can be read in parts: a NumPy array, a Zarr array, `CompactLabels` or a `VoxelView`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of voxels along each axis."""

    def __getitem__(self, region: Region, /) -> np.ndarray:
        """Returns the voxels of a region, as an array with all axes."""


@dataclass(frozen=True)
class VoxelView:
    """A volume whose voxels are computed when they are read.

    Attributes:
      shape: the number of voxels along each axis.
      read: a function that returns the voxels of a region.
    """

    shape: tuple[int, ...]
    read: Callable[[Region], np.ndarray]

    def __getitem__(self, region: Region, /) -> np.ndarray:
        return self.read(region)


def slabs(box: Region) -> Iterator[Region]:
    """Yields the regions that divide a box along its first axis, in order.

    >>> list(slabs((slice(2, 5), slice(0, SLAB_VOXELS // 2))))
    [(slice(2, 4, None), slice(0, 2097152, None)), (slice(4, 5, None), slice(0, 2097152, None))]
    """
    first, *others = box
    thickness = max(1, SLAB_VOXELS // max(1, math.prod(at.stop - at.start for at in others)))
    for start in range(first.start, first.stop, thickness):
        yield slice(start, min(start + thickness, first.stop)), *others


def whole(shape: tuple[int, ...]) -> Region:
    """Returns the region of all voxels.

    >>> whole((2, 3))
    (slice(0, 2, None), slice(0, 3, None))
    """
    return tuple(slice(0, length) for length in shape)
