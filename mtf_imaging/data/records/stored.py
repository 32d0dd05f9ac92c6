"""The interface of records on disk, which are read by region and written in slabs."""

import contextlib
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from mtf_imaging.data.intensities import ChannelStatistics
from mtf_imaging.data.records.record import Facts, Record
from mtf_imaging.data.sampling.grid import Grid, Region, whole_region
from mtf_imaging.data.sampling.sampling import Sampling, Spacing


class StoredRecord(ABC):
    """A record on disk, whose voxels are read by region.

    Attributes:
      path: path of the record.
      facts: the facts about the case.
      grid: number of voxels along x, y, z.
      num_channels: number of channels in the image.
      has_hu: whether the image is int16 Hounsfield units of one CT; otherwise it is float32 with channels.
      chunk: size of a chunk in voxels along x, y, z; None if the record is read as a whole.
      bytes_read: number of voxel bytes that were read from disk, as stored (compressed).
    """

    path: Path
    facts: Facts
    grid: Grid
    num_channels: int
    has_hu: bool
    chunk: Grid | None

    @property
    @abstractmethod
    def bytes_read(self) -> int:
        """Number of voxel bytes that were read from disk."""

    @abstractmethod
    def image(self, region: Region) -> np.ndarray:
        """Returns a region of the image, int16 `[x, y, z]` of HU or float32 `[x, y, z, channels]`.

        Only the chunks that overlap the region are read.

        Args:
          region: one Python slice per axis, without a step.

        Raises:
          DataError: a chunk is missing, truncated, altered or from another record.
        """

    @abstractmethod
    def labels(self, region: Region) -> np.ndarray:
        """Returns a region of the labels, uint8 `[x, y, z]`; see `image`."""

    @abstractmethod
    def check(self) -> None:
        """Reads all stored bytes without decoding them, and checks that they have not changed since they were written.

        Raises:
          DataError: part of the record is missing or damaged.
        """

    def read(self) -> Record:
        """Reads the whole record."""
        whole = whole_region(self.grid)
        return Record.from_parts(self.facts, self.image(whole), self.labels(whole))

    @property
    def sampling(self) -> Sampling:
        """Resolution and spacing of the record."""
        return Sampling(self.grid, self.facts.sampled_at)

    @property
    def key(self) -> str:
        """Key of the case."""
        return self.facts.key

    @property
    def affine(self) -> np.ndarray:
        """`[4, 4]` float64, voxel index -> mm in RAS+ of the canonical volume, before resampling."""
        return self.facts.affine

    @property
    def shape(self) -> Grid:
        """Size of the canonical volume in voxels along x, y, z, before resampling."""
        return self.facts.shape

    @property
    def spacing(self) -> Spacing:
        """Voxel size of the canonical volume in mm, before resampling."""
        return self.facts.spacing

    @property
    def sampled_at(self) -> Spacing | None:
        """Voxel size of the grid in mm, or None if the grid spans the whole field of view."""
        return self.facts.sampled_at

    @property
    def axis_codes(self) -> str:
        """Direction of each stored axis of the volume's file, for example `LPS`."""
        return self.facts.axis_codes

    @property
    def source(self) -> str:
        """Digest of the source files' contents."""
        return self.facts.source

    @property
    def statistics(self) -> tuple[ChannelStatistics, ...]:
        """The distribution of each channel in the whole case, before resampling; empty for LiTS."""
        return self.facts.statistics


class RecordWriter(contextlib.AbstractContextManager, ABC):
    """Writes a record slab by slab; the record gets its final name only after it is complete and verified.

    Use it as a context manager, write every plane of the image and of the labels once, and call `finish`. A slab is a
    range of planes along one axis, which may differ between the image and the labels. Slabs may come in any order, but
    ascending or descending order needs the least memory, because unfinished chunks stay in memory.
    """

    @abstractmethod
    def write_image(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the image.

        Args:
          slab: int16 `[x, y, z]` of HU, or float32 `[x, y, z, channels]`, with the sizes of the grid along all axes but
            `axis`.
          start: index of the first plane of the slab.
          axis: the axis along which slabs follow each other, the same in all calls.
        """

    @abstractmethod
    def write_labels(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the labels, uint8 `[x, y, z]`; see `write_image`."""

    @abstractmethod
    def finish(self, facts: Facts) -> None:
        """Writes the facts of the case, verifies the bytes on disk, and gives the record its final name.

        Raises:
          DataError: the bytes on disk differ from the bytes that were written.
          ValueError: planes are missing.
        """
