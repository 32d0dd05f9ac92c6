"""Reads the numbers of a NIfTI file in slabs, to save memory.

A scan of 512 x 512 x 1000 voxels takes 0.5 GB as int16, its type in memory, but up to 2 GB in its stored type.
"""

import contextlib
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.nifti.image_file import damage_named, opened

_SLAB_VOXELS = 1 << 21  # 16 MiB as float64; a few copies exist at a time


@dataclass(frozen=True)
class StoredValues:
    """The stored numbers of one channel of a file.

    Attributes:
      image: an image of `[i, j, k]` or `[i, j, k, channels]`; its voxels have not been read, or are an array.
      path: path of the file, for messages.
      channel: number of the channel.
    """

    image: nibabel.Nifti1Image
    path: Path
    channel: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each stored axis, without the axis of the channels."""
        return tuple(int(n) for n in self.image.shape[:3])

    @property
    def size(self) -> int:
        """Number of voxels."""
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored numbers, including the byte order."""
        return self.image.dataobj.dtype

    @property
    def scale(self) -> tuple[float, float]:
        """(slope, inter): a stored number stands for the value `slope * number + inter`."""
        if self._is_array:
            return 1.0, 0.0
        return float(self.image.dataobj.slope), float(self.image.dataobj.inter)

    @property
    def is_scaled(self) -> bool:
        return self.scale != (1.0, 0.0)

    @property
    def _is_array(self) -> bool:
        """Whether the voxels are in memory, as those of a PNG file."""
        return isinstance(self.image.dataobj, np.ndarray)

    @property
    def _is_last(self) -> bool:
        """Whether no other channel follows in the file."""
        return self.channel == int(np.prod(self.image.shape[3:])) - 1

    def raw_slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes along k, stored numbers `[i, j, planes]`) in order; each slab is read on demand.

        Raises:
          DataError: the file ends too early or is damaged. A wrong checksum is reported after the last slab.
        """
        if self._is_array:
            array = self.image.dataobj
            yield slice(0, self.shape[2]), array if array.ndim == 3 else array[..., self.channel]
            return
        in_plane, num_planes = self.shape[:2], self.shape[2]
        plane = int(np.prod(in_plane))
        planes = max(1, _SLAB_VOXELS // plane)
        with contextlib.ExitStack() as stack:
            with damage_named(self.path):
                file = stack.enter_context(opened(self.path))
                file.seek(self.image.dataobj.offset + self.channel * self.size * self.dtype.itemsize)
            for start in range(0, num_planes, planes):
                at = slice(start, min(start + planes, num_planes))
                count = plane * (at.stop - start)
                with damage_named(self.path):
                    data = file.read(count * self.dtype.itemsize)
                    numbers = np.frombuffer(data, self.dtype, count)  # raises ValueError if the file ends too early
                yield at, numbers.reshape(*in_plane, -1, order="F")
            with damage_named(self.path):
                # The checksum is at the end. It covers all channels, so it is checked once, after the last one.
                while self._is_last and isinstance(file, gzip.GzipFile) and file.read(_SLAB_VOXELS):
                    pass

    def slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes along k, values `[i, j, planes]`): float64 if the file is scaled, otherwise the stored type.

        Raises:
          DataError: see `raw_slabs`.
        """
        slope, inter = self.scale
        for at, slab in self.raw_slabs():
            yield at, slab * np.float64(slope) + inter if self.is_scaled else slab
