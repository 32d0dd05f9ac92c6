"""The stored numbers of NIfTI, PNG and TIFF files, read plane by plane."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import nibabel
import numpy as np

from mtf_imaging.data.formats.nifti.image_file import damage_named, is_compressed, opened
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once

_BLOCK_BYTES = 1 << 21
_SURPLUS_BYTES = 1 << 26  # after the voxels; a compressed file can expand to a thousand times its size


@dataclass(frozen=True)
class StoredValues(Stored):
    """The stored numbers of one channel of a NIfTI, PNG or TIFF file.

    Attributes:
      image: an image of `[i, j, k]` or `[i, j, k, channels]`; its voxels have not been read, or are an array.
      path: path of the file, for messages.
      channel: index of the channel.
    """

    image: nibabel.Nifti1Image
    path: Path
    channel: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each stored axis, without the channel axis."""
        return tuple(int(n) for n in self.image.shape[:3])

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored numbers, including the byte order."""
        return self.image.dataobj.dtype

    @property
    def scale(self) -> tuple[float, float]:
        """(slope, inter): a stored number stands for the value `slope * number + inter`."""
        if self.in_memory:
            return 1.0, 0.0
        return float(self.image.dataobj.slope), float(self.image.dataobj.inter)

    @property
    def in_memory(self) -> bool:
        """Whether the voxels are in memory, as for a PNG file."""
        return isinstance(self.image.dataobj, np.ndarray)

    @property
    def is_last(self) -> bool:
        """Whether this is the last channel in the file."""
        return self.channel == int(np.prod(self.image.shape[3:])) - 1

    @property
    def is_stream(self) -> bool:
        return not self.in_memory and is_compressed(self.path)

    def open(self) -> "StoredPlanes":
        return StoredPlanes(self)


class StoredPlanes:
    """Reads planes of stored numbers from a file, which stays open between calls.

    Read compressed files in increasing order: an earlier plane requires decompression from the start.
    """

    def __init__(self, stored: StoredValues) -> None:
        self._stored = stored
        self._stack = contextlib.ExitStack()
        self._file: BinaryIO | None = None

    def read(self, planes: slice) -> np.ndarray:
        """Returns the stored numbers `[i, j, planes]` of a range of planes along k.

        Raises:
          DataError: the file ends too early or is damaged.
        """
        stored = self._stored
        if stored.in_memory:
            array = stored.image.dataobj
            return (array if array.ndim == 3 else array[..., stored.channel])[..., planes]
        width, height, _ = stored.shape
        plane, start = width * height, planes.start
        with damage_named(stored.path):
            file, count = self._opened(), plane * (planes.stop - start)
            file.seek(
                stored.image.dataobj.offset + (stored.channel * stored.size + start * plane) * stored.dtype.itemsize
            )
            data = file.read(count * stored.dtype.itemsize)
            numbers = np.frombuffer(data, stored.dtype, count)  # raises ValueError if the file ends too early
        return numbers.reshape(width, height, -1, order="F")

    def check_end(self) -> None:
        """Checks the checksum at the end of a compressed file; call it after the last plane has been read.

        The checksum covers all channels, so only the last channel checks it. If far more data follows than the header
        declares, it is not decompressed to its end.

        Raises:
          DataError: the checksum is wrong, or the file is truncated.
        """
        if self._stored.in_memory or not self._stored.is_last:
            return
        if not self._stored.is_stream:
            return
        surplus = 0
        with damage_named(self._stored.path):
            while surplus <= _SURPLUS_BYTES and (block := self._opened().read(_BLOCK_BYTES)):
                surplus += len(block)
        if surplus > _SURPLUS_BYTES:
            warn_once(
                f"{self._stored.path}: more than {_SURPLUS_BYTES} bytes follow the voxels that its header declares; "
                "they are ignored, and its checksum is not checked."
            )

    def close(self) -> None:
        """Closes the file; the next read opens it again."""
        self._file = None
        self._stack.close()

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = self._stack.enter_context(opened(self._stored.path))
        return self._file
