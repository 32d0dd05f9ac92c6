"""Reads the chunks of a Zarr array, each into a buffer of the declared size.

The work is bounded by the existing files, not by the sizes in the metadata: missing chunks are neither listed nor
searched for one by one.
"""

import dataclasses
import itertools
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.ome_zarr.array_layout import ArrayLayout
from mtf_imaging.data.formats.ome_zarr.codecs import checked
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named
from mtf_imaging.files.text_file import check_regular, read_regular

_FETCH = "Fix: fetch the image again."
_ABSENT = 2**64 - 1  # offset and size of a chunk that a shard lacks
_ENTRY_BYTES, _CHECKSUM_BYTES = 16, 4

Position = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """A Zarr array in a folder.

    Attributes:
      folder: the folder of the array.
      layout: its layout.
    """

    folder: Path
    layout: ArrayLayout

    @cached_property
    def stored(self) -> frozenset[int]:
        """The positions of the existing files, as numbers in the grid of files."""
        counts = self.layout.counts
        steps = [math.prod(counts[axis + 1 :]) for axis in range(len(counts))]
        return frozenset(sum(map(int.__mul__, at, steps)) for at in self._list())

    @property
    def num_files(self) -> int:
        """Number of files if no chunk is missing."""
        return math.prod(self.layout.counts)

    @property
    def num_missing(self) -> int:
        """Number of files that are missing; their voxels have the fill value."""
        return self.num_files - len(self.stored)

    def missing_keys(self, limit: int) -> list[str]:
        """Returns the names of the first missing files.

        Args:
          limit: the largest number of names.
        """
        missing = (number for number in range(self.num_files) if number not in self.stored)
        return [self.layout.key(self._position(number)) for number in itertools.islice(missing, limit)]

    def read(self, region: Sequence[slice]) -> np.ndarray:
        """Returns the values of a region; only the files that overlap it are read.

        Args:
          region: one slice per axis, with start and stop within the array and without a step.

        Raises:
          DataError: a file is damaged, unreadable or not a regular file.
        """
        layout = self.layout
        result = np.full([part.stop - part.start for part in region], layout.fill_value)
        for at in self._overlapping(region):
            path = self.folder / layout.key(at)
            first = [number * size for number, size in zip(at, layout.file_shape, strict=True)]
            try:
                if layout.shards is None:
                    chunk = layout.codec.decode(read_regular(path, layout.codec.largest))
                    copy_chunk(chunk, first, region, result)
                else:
                    self._read_shard(path, first, region, result)
            except DataError:
                raise
            except (ValueError, RuntimeError, OSError, EOFError, zlib.error) as error:
                raise DataError(f"{path}: this chunk is damaged or truncated ({error}). {_FETCH}") from error
        return result

    def _read_shard(self, path: Path, first: Sequence[int], region: Sequence[slice], result: np.ndarray) -> None:
        """Copies the chunks of a file that overlap a region."""
        layout = self.layout
        assert layout.shards is not None
        check_regular(path)
        with access_named(path), open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            counts = tuple(whole // part for whole, part in zip(layout.file_shape, layout.chunk, strict=True))
            length = math.prod(counts) * _ENTRY_BYTES + _CHECKSUM_BYTES * layout.shards.has_checksum
            if size < length:
                raise ValueError(f"it has {size} bytes, but its index {length}")
            file.seek(0 if layout.shards.index_first else size - length)
            data = file.read(length)
            index = np.frombuffer(checked(data) if layout.shards.has_checksum else data, "<u8").reshape(*counts, 2)
            for at in itertools.product(*_touched(first, layout.file_shape, layout.chunk, region)):
                start, num_bytes = index[at].tolist()
                if start == num_bytes == _ABSENT:
                    continue
                if start + num_bytes > size or num_bytes > layout.codec.largest:
                    raise ValueError(f"its index has a chunk of {num_bytes} bytes at {start} of {size}")
                file.seek(start)
                chunk = layout.codec.decode(file.read(num_bytes))
                corner = [edge + number * step for edge, number, step in zip(first, at, layout.chunk, strict=True)]
                copy_chunk(chunk, corner, region, result)

    def _overlapping(self, region: Sequence[slice]) -> Iterator[Position]:
        """Yields the positions of the existing files that overlap a region."""
        shape = self.layout.file_shape
        ranges = [range(part.start // size, -(-part.stop // size)) for part, size in zip(region, shape, strict=True)]
        counts = self.layout.counts
        if math.prod(map(len, ranges)) <= len(self.stored):
            steps = [math.prod(counts[axis + 1 :]) for axis in range(len(counts))]
            for at in itertools.product(*ranges):
                if sum(map(int.__mul__, at, steps)) in self.stored:
                    yield at
        else:
            for at in map(self._position, sorted(self.stored)):
                if all(number in within for number, within in zip(at, ranges, strict=True)):
                    yield at

    def _position(self, number: int) -> Position:
        at = []
        for count in reversed(self.layout.counts):
            number, index = divmod(number, count)
            at.append(index)
        return tuple(reversed(at))

    def _list(self) -> Iterator[Position]:
        """Yields the positions of the existing files."""
        prefix, counts = self.layout.prefix, self.layout.counts
        if self.layout.separator == "/":
            yield from self._list_folder(self.folder / prefix, (), counts)
            return
        for name in _names(self.folder):
            parts = name.split(".")
            if prefix and parts.pop(0) != prefix:
                continue
            at = tuple(map(_number, parts, counts)) if len(parts) == len(counts) else (None,)
            if None not in at:
                yield at

    def _list_folder(self, folder: Path, at: Position, counts: Sequence[int]) -> Iterator[Position]:
        """Yields the positions of the files in the folder for the first axes."""
        if folder != self.folder and folder.is_symlink():  # a link to a parent folder would repeat its files endlessly
            raise DataError(f"{folder}: is a link to a folder of chunks. Fix: copy the folder in its place.")
        for name in _names(folder):
            number = _number(name, counts[0])
            if number is None:
                continue
            if len(counts) == 1:
                yield (*at, number)
            else:
                yield from self._list_folder(folder / name, (*at, number), counts[1:])


def _names(folder: Path) -> Iterator[str]:
    """Yields the names in a folder; none if it does not exist."""
    try:
        with access_named(folder), os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise


def _number(name: str, count: int) -> int | None:
    """Returns the number in a name, if it is below `count` and has no leading zeros."""
    if not name.isascii() or not name.isdigit() or len(name) > len(str(count)) or name != str(int(name)):
        return None
    return int(name) if int(name) < count else None


def _touched(
    first: Sequence[int], size: Sequence[int], step: Sequence[int], region: Sequence[slice]
) -> Iterator[range]:
    """Yields the positions of the chunks in a file that overlap a region."""
    for edge, whole, part, at in zip(first, size, step, region, strict=True):
        start, stop = max(at.start - edge, 0), min(at.stop - edge, whole)
        yield range(start // part, -(-stop // part))


def copy_chunk(chunk: np.ndarray, first: Sequence[int], region: Sequence[slice], result: np.ndarray) -> None:
    """Copies the part of a chunk that overlaps a region.

    Args:
      chunk: the values of the chunk.
      first: position of its first voxel in the array.
      region: the region.
      result: the values of the region.
    """
    source, target = [], []
    for edge, size, at in zip(first, chunk.shape, region, strict=True):
        start, stop = max(at.start, edge), min(at.stop, edge + size)
        source.append(slice(start - edge, stop - edge))
        target.append(slice(start - at.start, stop - at.start))
    result[tuple(target)] = chunk[tuple(source)]
