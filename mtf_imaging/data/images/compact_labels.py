"""Stores the labels of a whole volume in little memory, for reading in any order.

Compressed files can only be read from the start, and two files of a case can have different axis orders. Each mask is
read once into compressed chunks, which are then read several times, in the order of the other file.
"""

import contextlib
import zlib

import numpy as np

from mtf_imaging.data.images.sources import VoxelSource
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.files.blocks import Region, bounds, overlaps
from mtf_imaging.files.reading import memory_named

_CHUNK = 32  # voxels along each axis
_LEVEL = 1  # zlib level; labels compress well at any level
_OPEN = 1 << 11  # chunks that stay uncompressed, because slabs are thinner than chunks


class CompactLabels:
    """Labels in compressed chunks, written and read by region like an array.

    A chunk with a single label does not store its voxels, and other chunks need at most 1 byte per voxel. Voxels
    that have not been written are 0.

    >>> labels = CompactLabels((64, 64, 64))
    >>> labels[10:20, 0:5, 40:41] = np.uint8(2)
    >>> labels[9:12, 4:5, 40:41].ravel()
    array([0, 2, 2], dtype=uint8)

    Attributes:
      shape: the number of voxels along each axis.
      dtype: uint8.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._chunks: dict[tuple[int, ...], int | bytes] = {}  # one label for all voxels, or compressed labels
        self._open: dict[tuple[int, ...], np.ndarray] = {}

    def __setitem__(self, region: Region, labels: np.ndarray, /) -> None:
        """Writes a region; partially covered chunks keep their other voxels."""
        region = bounds(region, self.shape)
        labels = np.broadcast_to(np.asarray(labels, np.uint8), [at.stop - at.start for at in region])
        if not labels.size:
            return
        for index, of_chunk, of_region in overlaps(region, [_CHUNK] * len(region)):
            chunk = labels[of_region]
            if chunk.shape != self._chunk_shape(index):
                whole = self._chunk(index).copy()
                whole[of_chunk] = chunk
                chunk = whole
            self._open.pop(index, None)
            first = int(chunk.flat[0])
            if (chunk != first).any():
                self._chunks[index] = zlib.compress(np.ascontiguousarray(chunk), _LEVEL)
            elif first or index in self._chunks:
                self._chunks[index] = first

    def __getitem__(self, region: Region, /) -> np.ndarray:
        """Returns the labels of a region, a new uint8 array."""
        region = bounds(region, self.shape)
        labels = np.zeros([at.stop - at.start for at in region], np.uint8)
        for index, of_chunk, of_region in overlaps(region, [_CHUNK] * len(region)):
            if index in self._chunks:
                labels[of_region] = self._chunk(index)[of_chunk]
        return labels

    def copy(self) -> "CompactLabels":
        """Returns labels that share the memory of unchanged chunks."""
        other = CompactLabels(self.shape)
        other._chunks = self._chunks.copy()
        return other

    def _chunk_shape(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(min(_CHUNK, length - _CHUNK * i) for i, length in zip(index, self.shape, strict=True))

    def _chunk(self, index: tuple[int, ...]) -> np.ndarray:
        shape, stored = self._chunk_shape(index), self._chunks.get(index, 0)
        if isinstance(stored, int):
            return np.broadcast_to(np.uint8(stored), shape)
        if index not in self._open:
            if len(self._open) == _OPEN:
                self._open.clear()
            self._open[index] = np.frombuffer(zlib.decompress(stored), np.uint8).reshape(shape)
        return self._open[index]


def read_compact(source: VoxelSource) -> CompactLabels:
    """Reads all labels of a mask in the order of its file, and checks and closes the file.

    Raises:
      DataError: the file is damaged, or it has labels that are not in its description.
    """
    labels = CompactLabels(source.geometry.shape)
    with memory_named(source.path), contextlib.closing(source):
        for region in source.order.parts(whole_region(labels.shape), _CHUNK):
            labels[region] = source.read(region)
        source.check()
    return labels
