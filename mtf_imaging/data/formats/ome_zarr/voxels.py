"""Opens OME-Zarr images, and reads the stored numbers of their voxels."""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.errors import BaseZarrError

from mtf_imaging.data.formats.ome_zarr.axes import SPACE
from mtf_imaging.data.formats.ome_zarr.metadata import OURS, Multiscale, parse_multiscale
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named

_SHOWN = 3  # chunks in a message


@dataclasses.dataclass(frozen=True)
class ZarrVoxels:
    """The array of full resolution of an OME-Zarr image. Its stored axes are x, y, z, in any order on disk.

    Attributes:
      path: the folder of the image.
      multiscale: the metadata.
      array: the array.
    """

    path: Path
    multiscale: Multiscale
    array: zarr.Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along x, y, z."""
        return tuple(int(self.array.shape[self.multiscale.position(name)]) for name in SPACE)

    @property
    def chunk(self) -> tuple[int, int, int]:
        """Number of voxels of a chunk along x, y, z."""
        return tuple(int(self.array.chunks[self.multiscale.position(name)]) for name in SPACE)

    @property
    def num_channels(self) -> int:
        """Number of channels; 1 without an axis of channels."""
        axis = self.multiscale.number_of("channel")
        return 1 if axis is None else int(self.array.shape[axis])

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored numbers."""
        return np.dtype(np.uint8) if self.array.dtype == bool else self.array.dtype

    def read(self, region: Region, channel: int = 0) -> np.ndarray:
        """Reads the chunks of a region, and no others.

        Args:
          region: a box of voxels along x, y, z.
          channel: number of the channel.

        Returns:
          The stored numbers `[x, y, z]`.

        Raises:
          DataError: a chunk cannot be read.
        """
        index: list[slice | int] = [0] * self.array.ndim
        for name, at in zip(SPACE, region, strict=True):
            index[self.multiscale.position(name)] = at
        if (axis := self.multiscale.number_of("channel")) is not None:
            index[axis] = channel
        try:
            with access_named(self.path):
                numbers = np.asarray(self.array[tuple(index)])
        except DataError:
            raise
        except Exception as error:  # codecs raise errors of many types
            raise DataError(
                f"{self._damaged(index)}: this chunk of {self.path} is damaged or truncated ({error}). "
                "Fix: fetch the image again."
            ) from error
        order = [name for name in (axis.name for axis in self.multiscale.axes) if name in SPACE]
        return numbers.transpose([order.index(name) for name in SPACE]).astype(self.dtype, copy=False)

    def missing_chunks(self) -> list[str]:
        """Returns the keys of missing chunks; Zarr reads their voxels as the fill value, without an error."""
        if self.array.nchunks_initialized == self.array.nchunks:
            return []
        folder = self.path / self.array.path
        unit = self.array.shards or self.array.chunks
        counts = [-(-size // step) for size, step in zip(self.array.shape, unit, strict=True)]
        keys = (self.array.metadata.encode_chunk_key(at) for at in itertools.product(*map(range, counts)))
        return [key for key in keys if not (folder / key).exists()]

    def _damaged(self, index: list[slice | int]) -> Path:
        """Returns the file of the first chunk that cannot be read, or the folder of the array."""
        for at, part in self._chunks(index):
            try:
                self.array[part]
            except Exception:
                return self.path / self.array.path / self.array.metadata.encode_chunk_key(at)
        return self.path / self.array.path

    def _chunks(self, index: list[slice | int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Yields (position in the grid of files, voxels) of each file that a selection needs."""
        unit = self.array.shards or self.array.chunks
        ranges = []
        for at, size in zip(index, unit, strict=True):
            start, stop = (at.start, at.stop) if isinstance(at, slice) else (at, at + 1)
            ranges.append(range(start // size, -(-stop // size)))
        for at in itertools.product(*ranges):
            yield at, tuple(slice(n * size, (n + 1) * size) for n, size in zip(at, unit, strict=True))


def open_ome_zarr(path: str | Path) -> ZarrVoxels:
    """Reads the metadata of an OME-Zarr image.

    Args:
      path: the folder of the image.

    Raises:
      DataError: the folder is missing or is not an OME-Zarr image of version 0.4 or 0.5, its metadata is malformed, it
        has several points in time, or its voxels are not plain numbers.
    """
    path = Path(path)
    attributes = _attributes(path)
    found = parse_multiscale(path, attributes)
    try:
        with access_named(path):
            array = zarr.open_array(path, path=found.array, mode="r")
    except (BaseZarrError, ValueError, KeyError, TypeError, FileNotFoundError, DataError) as error:
        raise DataError(
            f"{path}: its array '{found.array}' cannot be opened ({error}). It is missing, or its metadata is "
            "damaged. Fix: fetch the image again."
        ) from error
    if len(found.axes) != array.ndim:
        raise DataError(
            f"{path}: its array '{found.array}' has {array.ndim} axes (shape {array.shape}), but its metadata names "
            f"{len(found.axes)}: {', '.join(axis.name for axis in found.axes)}. Fix: repair the metadata."
        )
    if min(array.shape) < 1:
        raise DataError(
            f"{path}: its array '{found.array}' has the shape {array.shape}, so it has no voxels. "
            "Fix: fetch the image again."
        )
    time = found.number_of("time")
    if time is not None and array.shape[time] > 1:
        raise DataError(
            f"{path}: has {array.shape[time]} points in time (axis {found.axes[time].name}), but one volume is needed. "
            "Fix: store each point in time as an image of its own."
        )
    if array.dtype.kind not in "iufb":
        raise DataError(
            f"{path}: voxels are of type {array.dtype}, not plain numbers. "
            "Fix: store one number (HU or label) per voxel."
        )
    return ZarrVoxels(path, found, array)


def _attributes(path: Path) -> Mapping[str, Any]:
    if not path.is_dir():
        raise DataError(f"{path}: this OME-Zarr folder does not exist. Fix: check the path.")
    try:
        with access_named(path):
            return zarr.open_group(path, mode="r").attrs.asdict()
    except (BaseZarrError, json.JSONDecodeError, ValueError, KeyError, TypeError, DataError) as error:
        raise DataError(
            f"{path}: cannot be read as a Zarr group ({error}). Its metadata is missing or damaged, or it is another "
            "folder. Fix: give the folder of an OME-Zarr image."
        ) from error


def check_chunks(voxels: ZarrVoxels) -> str | None:
    """Checks that the chunks of an image exist. Masks may lack the chunks of the background, so do not check these.

    Args:
      voxels: the image.

    Returns:
      A warning about missing chunks, or None if all exist.

    Raises:
      DataError: all chunks are missing, or the image is a record, which stores every chunk.
    """
    missing = voxels.missing_chunks()
    if not missing:
        return None
    shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
    what = f"{voxels.path / voxels.array.path}: {len(missing)} chunk(s) are missing: {shown}"
    is_record = OURS in voxels.array.attrs
    if is_record or voxels.array.nchunks_initialized == 0:
        raise DataError(f"{what}. Fix: fetch the image again.")
    return f"{what}; their voxels are read as {voxels.array.fill_value}, the fill value."
