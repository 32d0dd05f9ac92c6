"""Records on disk, in OME-Zarr, which are read by region."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.records.chunks import MAX_METADATA_BYTES, METADATA, OURS, REMAKE, CheckedFolder, ChunkedArray
from mtf_imaging.data.records.ome_metadata import IMAGE, LABEL_IMAGE, facts_from_fields, metadata_digest
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.files.json_file import read_json
from mtf_imaging.files.reading import access_named

_AGAIN = REMAKE.removeprefix("Fix: ").removesuffix(".")
_SPATIAL = 3  # axes of an image without channels


class StoredRecord:
    """A record on disk, whose voxels are read by region. Opening it reads only metadata.

    Args:
      path: path of the folder.
      sampling: the required sampling, or None for any.

    Attributes:
      path: path of the folder.
      facts: the facts about the case.
      grid: number of voxels along x, y, z.
      num_channels: number of channels in the image.
      has_hu: whether the image is int16 Hounsfield units of one CT; otherwise it is float32 with channels.
      chunk: size of a chunk in voxels along x, y, z.

    Raises:
      DataError: the record is missing, damaged or not a record, or it has another sampling.
    """

    def __init__(self, path: str | os.PathLike, sampling: Sampling | None = None) -> None:
        self.path = Path(path)
        try:
            ours = _read_attributes(self.path)
            self.facts = facts_from_fields(ours["record"])
            self._folder = CheckedFolder(self.path, self.facts.key, dict(ours["digests"]))
            self._image = ChunkedArray(self._folder, IMAGE)
            self._labels = ChunkedArray(self._folder, LABEL_IMAGE)
            _check_arrays(self._image, self._labels)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            what = f"not a record of this program, or its {METADATA} is damaged"
            raise DataError(f"{self.path}: {what}. {REMAKE}") from error
        self.grid = _xyz(self._labels.shape)
        self.chunk: Grid = _xyz(self._labels.chunk)
        channels = self._image.shape[:-_SPATIAL]
        self.has_hu, self.num_channels = not channels, math.prod(channels)
        if sampling is not None and self.sampling != sampling:
            what = f"this record has resolution {self.sampling}, not {sampling}"
            raise DataError(f"{path}: {what}. Fix: use a separate folder for each resolution.")

    @property
    def sampling(self) -> Sampling:
        """Resolution and spacing of the record."""
        return Sampling(self.grid, self.facts.sampled_at)

    @property
    def bytes_read(self) -> int:
        """Number of chunk bytes that were read from disk, compressed."""
        return self._folder.bytes_read

    def image(self, region: Region) -> np.ndarray:
        """Returns a region of the image, int16 `[x, y, z]` of HU or float32 `[x, y, z, channels]`.

        Only the chunks that overlap the region are read.

        Args:
          region: one Python slice per axis, without a step.

        Raises:
          DataError: a chunk is missing, truncated, altered or from another record.
        """
        return self._read(self._image, region)

    def labels(self, region: Region) -> np.ndarray:
        """Returns a region of the labels, uint8 `[x, y, z]`; see `image`."""
        return self._read(self._labels, region)

    def check(self) -> None:
        """Reads all files without decoding them, and checks that they have not changed since they were written.

        Raises:
          DataError: a file is missing or damaged.
        """
        _read_attributes(self.path)
        for name in self._folder.digests:
            self._folder.read(name)

    def _read(self, array: ChunkedArray, region: Region) -> np.ndarray:
        ranges = [range(size)[part] for size, part in zip(self.grid, region, strict=True)]
        channels = array.shape[:-_SPATIAL]
        result = np.empty((*map(len, ranges), *channels), array.dtype.newbyteorder("="))
        # The axes are reversed chunk by chunk, while a chunk is in the CPU cache.
        array.read([*map(range, channels), *reversed(ranges)], result.T)
        return result


def _check_arrays(image: ChunkedArray, labels: ChunkedArray) -> None:
    """Raises ValueError unless two arrays are the image and the labels of a record."""
    kinds = [(len(array.shape) - _SPATIAL, array.dtype.name) for array in (image, labels)]
    grids = {(array.shape[-_SPATIAL:], array.chunk[-_SPATIAL:]) for array in (image, labels)}
    if kinds not in ([(0, "int16"), (0, "uint8")], [(1, "float32"), (0, "uint8")]) or len(grids) > 1:
        raise ValueError(f"image {image.dtype} {image.shape}, labels {labels.dtype} {labels.shape}")


def _xyz(shape: Sequence[int]) -> Grid:
    *_, z, y, x = shape
    return x, y, z


def _read_attributes(path: Path) -> dict[str, Any]:
    """Returns our attributes of the root group."""
    with access_named(path):
        if not path.exists():
            raise DataError(f"{path}: this record does not exist. Fix: run convert again; it adds missing records.")
        if not (path / METADATA).is_file():
            raise DataError(f"{path}: this record has no {METADATA}. {REMAKE}")
    metadata = read_json(path / METADATA, _AGAIN, max_bytes=MAX_METADATA_BYTES)
    ours = metadata["attributes"][OURS]
    if ours["digest"] != metadata_digest(metadata):
        raise DataError(f"{path / METADATA}: this metadata of a record is damaged: its digest does not match. {REMAKE}")
    return ours
