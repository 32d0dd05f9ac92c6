"""Images and masks that are read region by region, in canonical axes.

`contextlib.closing` closes the files of a source.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.planes import RepairedPlanes
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.data.sampling.regions import PlaneOrder
from mtf_imaging.files.reading import memory_named

_SLAB_VOXELS = 1 << 22


class VoxelSource(Protocol):
    """One channel of an image, or the labels of a mask, read from a file or folder.

    Attributes:
      path: path of the file, for messages.
      geometry: geometry of the file.
      dtype: type of the voxels: int16 HU of a CT, float32 values of another modality, or uint8 labels.
      order: the order in which regions are read fastest.
      is_stream: whether a region before the last one in `order` can only be read from the start of the file.
    """

    path: Path
    geometry: Geometry
    dtype: np.dtype
    order: PlaneOrder
    is_stream: bool

    def read(self, region: Region) -> np.ndarray:
        """Returns the repaired voxels of a region `[x, y, z]` in canonical axes, as a new array.

        Raises:
          DataError: the file is damaged. Faults of the file as a whole are reported by `check`.
        """

    def check(self) -> None:
        """Checks the whole file, and warns about repairs; reads only the parts that have not been read yet.

        Raises:
          DataError: the file is damaged, or its values cannot be used.
        """

    def close(self) -> None:
        """Closes the file; the next read opens it again."""


def read_slabs(source: VoxelSource) -> Iterator[tuple[Region, np.ndarray]]:
    """Yields (region, voxels) of slabs that together are the whole volume, in the order of the source."""
    for region in source.order.slabs(source.geometry.shape, _SLAB_VOXELS):
        yield region, source.read(region)


class StoredSource:
    """A channel of a NIfTI, PNG or TIFF file; see `VoxelSource`.

    Args:
      planes: the repaired values in stored axes.
      geometry: geometry of the file.
    """

    def __init__(self, planes: RepairedPlanes, geometry: Geometry) -> None:
        self.planes, self.geometry, self.order = planes, geometry, geometry.plane_order
        self.path, self.dtype, self.is_stream = planes.path, planes.dtype, planes.is_stream

    def coarser(self, least: int) -> "StoredSource":
        """Returns the source of a coarser level with the same field of view; see `RepairedPlanes.coarser`."""
        planes = self.planes.coarser(least)
        region = self.geometry.canonical_region(tuple(slice(0, size) for size in planes.shape))
        return self if planes is self.planes else StoredSource(planes, self.geometry.cropped(region))

    def read(self, region: Region) -> np.ndarray:
        with memory_named(self.path):
            return self.geometry.to_canonical(self.planes.read(self.geometry.stored_region(region)))

    def check(self) -> None:
        with memory_named(self.path):
            self.planes.check()

    def close(self) -> None:
        self.planes.close()


@dataclass(frozen=True)
class ImageSource:
    """An image in canonical axes whose voxels are read region by region.

    Attributes:
      channels: the source of each channel. All have the same shape, but their order may differ.
      names: the channel names.
      geometry: geometry of the first channel.
      path: path of the first channel.
    """

    channels: tuple[VoxelSource, ...]
    names: tuple[str, ...]
    geometry: Geometry
    path: Path

    @property
    def order(self) -> PlaneOrder:
        """The order in which regions are read fastest."""
        return self.channels[0].order

    def read(self, region: Region) -> list[np.ndarray]:
        """Returns each channel's repaired voxels `[x, y, z]` in a region; see `VoxelSource.read`."""
        return [channel.read(region) for channel in self.channels]

    def check(self) -> None:
        """Checks the files of all channels; see `VoxelSource.check`."""
        for channel in self.channels:
            channel.check()

    def close(self) -> None:
        """Closes the files; the next read opens them again."""
        for channel in self.channels:
            channel.close()
