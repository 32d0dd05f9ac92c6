"""Opens OME-Zarr images, and reads the stored numbers of their voxels."""

import dataclasses
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.ome_zarr.axes import SPACE
from mtf_imaging.data.formats.ome_zarr.groups import array_folder, read_attributes, read_layout
from mtf_imaging.data.formats.ome_zarr.metadata import OURS, Multiscale, parse_multiscale
from mtf_imaging.data.formats.ome_zarr.stored_array import StoredArray
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.errors import DataError

_SHOWN = 3  # chunks in a message
_SPARSEST = 1000  # chunks of an image per stored chunk


@dataclasses.dataclass(frozen=True)
class ZarrVoxels:
    """The full-resolution array of an OME-Zarr image. Its stored axes are x, y, z, in any order on disk.

    Attributes:
      path: the folder of the image.
      multiscale: the metadata.
      array: the array.
    """

    path: Path
    multiscale: Multiscale
    array: StoredArray

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along x, y, z."""
        return self._xyz(self.array.layout.shape)

    @property
    def chunk(self) -> tuple[int, int, int]:
        """Size of a chunk along x, y, z, in voxels."""
        return self._xyz(self.array.layout.chunk)

    @property
    def num_channels(self) -> int:
        """Number of channels; 1 without a channel axis."""
        axis = self.multiscale.number_of("channel")
        return 1 if axis is None else self.array.layout.shape[axis]

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers that are read."""
        stored = self.array.layout.fill_value.dtype
        return np.dtype(np.uint8) if stored.kind == "b" else stored

    def read(self, region: Region, channel: int = 0) -> np.ndarray:
        """Reads the chunks of a region, and no others.

        Args:
          region: a box of voxels along x, y, z.
          channel: index of the channel.

        Returns:
          The stored numbers `[x, y, z]`.

        Raises:
          DataError: a chunk cannot be read.
        """
        index = [slice(0, 1)] * len(self.multiscale.axes)
        for name, at in zip(SPACE, region, strict=True):
            index[self.multiscale.position(name)] = at
        if (axis := self.multiscale.number_of("channel")) is not None:
            index[axis] = slice(channel, channel + 1)
        order = [self.multiscale.position(name) for name in SPACE]
        others = [number for number in range(len(index)) if number not in order]
        numbers = self.array.read(index).transpose([*order, *others])
        return numbers.reshape(numbers.shape[:3]).astype(self.dtype, copy=False)

    def _xyz(self, sizes: tuple[int, ...]) -> tuple[int, int, int]:
        x, y, z = (sizes[self.multiscale.position(name)] for name in SPACE)
        return x, y, z


def open_ome_zarr(path: str | Path) -> ZarrVoxels:
    """Reads the metadata of an OME-Zarr image.

    Args:
      path: the folder of the image.

    Raises:
      DataError: the folder is missing or is not an OME-Zarr image of version 0.4 or 0.5, its metadata is malformed, it
        has several points in time, its voxels are not plain numbers, or its chunks have an unsupported codec.
    """
    path = Path(path)
    found = parse_multiscale(path, read_attributes(path))
    folder = array_folder(path, found.array)
    layout = read_layout(folder)
    shape = layout.shape
    if len(found.axes) != len(shape):
        raise DataError(
            f"{path}: its array '{found.array}' has {len(shape)} axes (shape {shape}), but its metadata names "
            f"{len(found.axes)}: {', '.join(axis.name for axis in found.axes)}. Fix: repair the metadata."
        )
    time = found.number_of("time")
    if time is not None and shape[time] > 1:
        raise DataError(
            f"{path}: has {shape[time]} points in time (axis {found.axes[time].name}), but one volume is needed. "
            "Fix: store each point in time as an image of its own."
        )
    return ZarrVoxels(path, found, StoredArray(folder, layout))


def check_chunks(voxels: ZarrVoxels) -> str | None:
    """Checks that the chunks of an image exist. Do not check masks, which may lack background chunks.

    Args:
      voxels: the image.

    Returns:
      A warning about missing chunks, or None if all exist.

    Raises:
      DataError: nearly all chunks are missing, or the image is a record, which stores every chunk.
    """
    array = voxels.array
    if not array.num_missing:
        return None
    keys = array.missing_keys(_SHOWN)
    more = ", ..." if array.num_missing > len(keys) else ""
    what = f"{array.folder}: {array.num_missing} of {array.num_files} chunk(s) are missing: {', '.join(keys)}{more}"
    is_record = OURS in array.layout.attributes
    if is_record or array.num_files > _SPARSEST * len(array.stored):
        raise DataError(f"{what}. Fix: fetch the image again; if it is that empty, store its empty chunks, too.")
    return f"{what}; their voxels are read as {array.layout.fill_value}, the fill value."
