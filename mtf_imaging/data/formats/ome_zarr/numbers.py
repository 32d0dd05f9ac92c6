"""The stored numbers of one channel of an OME-Zarr image."""

import dataclasses
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.ome_zarr.geometry import ZarrGeometry, zarr_geometry
from mtf_imaging.data.formats.ome_zarr.voxels import ZarrVoxels, check_chunks, open_ome_zarr
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once


@dataclasses.dataclass(frozen=True)
class ZarrNumbers(Stored):
    """The stored numbers of one channel, with the axes x, y, z.

    Attributes:
      voxels: the array of the image.
      channel: index of the channel.
    """

    voxels: ZarrVoxels
    channel: int = 0

    @property
    def path(self) -> Path:
        return self.voxels.path

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.voxels.shape

    @property
    def dtype(self) -> np.dtype:
        return self.voxels.dtype

    def open(self) -> "ZarrPlanes":
        return ZarrPlanes(self)


class ZarrPlanes:
    """Reads planes along z; see `Planes`. Keeps the last layer of chunks, so consecutive slabs read it only once."""

    def __init__(self, stored: ZarrNumbers) -> None:
        self._stored = stored
        self._layer: tuple[int, np.ndarray] | None = None

    def read(self, planes: slice) -> np.ndarray:
        """Returns the stored numbers `[x, y, planes]` of a range of planes; see `ZarrVoxels.read`."""
        thickness = self._stored.voxels.chunk[2]
        slab = np.empty((*self._stored.shape[:2], planes.stop - planes.start), self._stored.dtype, order="F")
        for layer in range(planes.start // thickness, -(-planes.stop // thickness)):
            first = layer * thickness
            start, stop = max(planes.start, first), min(planes.stop, first + thickness)
            slab[..., start - planes.start : stop - planes.start] = self._read(layer)[..., start - first : stop - first]
        return slab

    def check_end(self) -> None:
        """Does nothing, because every chunk is checked when it is read."""

    def close(self) -> None:
        """Frees the layer."""
        self._layer = None

    def _read(self, layer: int) -> np.ndarray:
        if self._layer is None or self._layer[0] != layer:
            self._layer = None  # frees the layer before the next one is allocated
            width, height, depth = self._stored.shape
            thickness = self._stored.voxels.chunk[2]
            along = slice(layer * thickness, min((layer + 1) * thickness, depth))
            region = slice(0, width), slice(0, height), along
            self._layer = layer, self._stored.voxels.read(region, self._stored.channel)
        return self._layer[1]


def open_numbers(path: Path) -> tuple[list[ZarrNumbers], ZarrGeometry]:
    """Reads the metadata of an OME-Zarr image.

    Args:
      path: the folder of the image.

    Returns:
      The stored numbers of each channel, and the geometry.

    Raises:
      DataError: see `open_ome_zarr` and `check_chunks`.
    """
    voxels = open_ome_zarr(path)
    if not voxels.multiscale.is_label and (warning := check_chunks(voxels)):
        warn_once(warning)
    if voxels.multiscale.has_size and not voxels.multiscale.has_units:
        warn_once(f"{path}: its metadata does not state the unit of the axes; the scale is read as millimeters.")
    channels = [ZarrNumbers(voxels, number) for number in range(voxels.num_channels)]
    return channels, zarr_geometry(voxels.multiscale, voxels.shape)
