"""Reads records in OME-Zarr by region."""

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.buffer.cpu import NDBuffer

from mtf_imaging.data.records.chunk_store import METADATA, REMAKE, CheckedStore
from mtf_imaging.data.records.ome_metadata import (
    IMAGE,
    LABEL_IMAGE,
    OURS,
    attributes_digest,
    facts_from_fields,
)
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named

_IMAGE_AXES = 3  # without channels


class ZarrRecord(StoredRecord):
    """A record in a folder; see `StoredRecord`.

    Args:
      path: path of the folder.

    Raises:
      DataError: the record is missing or damaged, or not a record.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        try:
            ours = _read_attributes(self.path)
            self.facts = facts_from_fields(ours["record"])
            self._store = CheckedStore(self.path, self.facts.key, dict(ours["digests"]))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{self.path}: not a record of this program. {REMAKE}") from error
        sizes = self._image.shape[-_IMAGE_AXES:]
        self.grid: Grid = (sizes[2], sizes[1], sizes[0])
        self.has_hu = self._image.ndim == _IMAGE_AXES
        self.num_channels = 1 if self.has_hu else self._image.shape[0]
        chunks = self._image.chunks[-_IMAGE_AXES:]
        self.chunk: Grid = (chunks[2], chunks[1], chunks[0])

    @property
    def bytes_read(self) -> int:
        """Number of bytes of chunks that were read from the disk, compressed."""
        return self._store.bytes_read

    def image(self, region: Region) -> np.ndarray:
        """Returns a region of the image; see `StoredRecord`."""
        return self._read(self._image, region)

    def labels(self, region: Region) -> np.ndarray:
        """Returns a region of the labels; see `StoredRecord`."""
        return self._read(self._labels, region)

    def check(self) -> None:
        """Checks the digests of all files; see `StoredRecord`."""
        del self._image, self._labels  # their metadata are read again
        for array in (self._image, self._labels):
            for key in array.attrs[OURS]["digests"]:
                self._store.read(f"{array.path}/{key}")

    @functools.cached_property
    def _image(self) -> zarr.Array:
        return self._open(IMAGE)

    @functools.cached_property
    def _labels(self) -> zarr.Array:
        return self._open(LABEL_IMAGE)

    def _open(self, name: str) -> zarr.Array:
        array = zarr.open_array(self._store, path=name, mode="r", zarr_format=3)
        digests = array.attrs[OURS]["digests"]
        self._store.digests |= {f"{name}/{key}": value for key, value in digests.items()}
        return array

    def _read(self, array: zarr.Array, region: Region) -> np.ndarray:
        ranges = [range(size)[part] for size, part in zip(self.grid, region, strict=True)]
        channels = array.shape[:-_IMAGE_AXES]
        result = np.empty((*map(len, ranges), *channels), array.dtype)
        selection = [slice(None)] * len(channels) + [slice(one.start, one.stop) for one in reversed(ranges)]
        if result.size:
            # Zarr transposes each chunk while it is in the cache of the processor.
            array.get_basic_selection(tuple(selection), out=NDBuffer.from_numpy_array(result.T))
        return result


def _read_attributes(path: Path) -> dict[str, Any]:
    """Returns our attributes of the root group."""
    with access_named(path):
        if not path.exists():
            raise DataError(f"{path}: this record does not exist. Fix: run convert again; it adds missing records.")
        if not (path / METADATA).is_file():
            raise DataError(f"{path}: this record has no {METADATA}. {REMAKE}")
        text = (path / METADATA).read_text()
    attributes = json.loads(text)["attributes"]
    if attributes[OURS]["digest"] != attributes_digest(attributes):
        raise DataError(f"{path / METADATA}: this metadata of a record is damaged: its digest does not match. {REMAKE}")
    return attributes[OURS]
