"""The numbers of a NIfTI file, read a slab at a time: no file is held in memory as it is stored.

A scan of 512 x 512 x 1000 is 0.5 GB as int16, which is all that is kept of it, and up to 2 GB as it is stored.
"""

import contextlib
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.nifti.image_file import damage_named, opened

_SLAB_VOXELS = 1 << 21  # 16 MiB as float64, of which a few copies are made at a time


@dataclass(frozen=True)
class StoredValues:
    """The numbers of a file, as stored.

    Attributes:
      image: the image, of one volume, with nothing of its voxels read.
      path: the file, for messages.
    """

    image: nibabel.Nifti1Image
    path: Path

    @property
    def shape(self) -> tuple[int, int, int]:
        """Voxels along the stored axes; trailing axes of size 1 are not counted."""
        return tuple(int(n) for n in self.image.shape[:3])

    @property
    def size(self) -> int:
        """How many voxels there are."""
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers in the file, with its byte order."""
        return self.image.dataobj.dtype

    @property
    def scale(self) -> tuple[float, float]:
        """(slope, inter): what the numbers mean is `slope * number + inter`."""
        return float(self.image.dataobj.slope), float(self.image.dataobj.inter)

    @property
    def is_scaled(self) -> bool:
        return self.scale != (1.0, 0.0)

    def raw_slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes along k, the numbers `[i, j, planes]` in the file), in order, each read when it is asked for.

        Raises:
          DataError: the file ends too early or is damaged. A wrong checksum is reported after the last slab.
        """
        in_plane, num_planes = self.shape[:2], self.shape[2]
        plane = int(np.prod(in_plane))
        planes = max(1, _SLAB_VOXELS // plane)
        with contextlib.ExitStack() as stack:
            with damage_named(self.path):
                file = stack.enter_context(opened(self.path))
                file.seek(self.image.dataobj.offset)
            for start in range(0, num_planes, planes):
                at = slice(start, min(start + planes, num_planes))
                count = plane * (at.stop - start)
                with damage_named(self.path):
                    data = file.read(count * self.dtype.itemsize)
                    numbers = np.frombuffer(data, self.dtype, count)  # a ValueError where there are fewer
                yield at, numbers.reshape(*in_plane, -1, order="F")
            with damage_named(self.path):
                while isinstance(file, gzip.GzipFile) and file.read(_SLAB_VOXELS):  # the checksum is at the end
                    pass

    def slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes along k, what their numbers mean): float64 where they are scaled, else of the stored type.

        Raises:
          DataError: as `raw_slabs`.
        """
        slope, inter = self.scale
        for at, slab in self.raw_slabs():
            yield at, slab * np.float64(slope) + inter if self.is_scaled else slab
