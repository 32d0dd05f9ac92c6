"""Decodes the chunks of Zarr arrays into buffers of the declared size.

Only the codecs in this table are decoded. Other codecs may run code (pickle), or their results have no bounded size.
"""

import bz2
import functools
import gzip
import io
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import blosc, lz4, zstd

_BLOSC_HEADER = 16
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHECKSUM_BYTES = 4
_SLACK = 1 << 16  # the most bytes that compression adds, in addition to an eighth


def decompress_blosc(data: bytes, size: int) -> np.ndarray:
    """Decompresses a Blosc buffer.

    Args:
      data: the buffer.
      size: the number of bytes that it must contain.

    Returns:
      The bytes, uint8 `[size]`.

    Raises:
      ValueError: the buffer is truncated, or contains another number of bytes.
      RuntimeError: the buffer is damaged.
    """
    # Blosc itself trusts the sizes in the header.
    stated, stored = (int.from_bytes(data[at : at + 4], "little") for at in (4, 12))
    if len(data) < _BLOSC_HEADER or stored != len(data):
        raise ValueError(f"it has {len(data)} bytes, but its header states {stored}")
    return _filled(blosc.decompress, data, stated, size)


def _decompress_lz4(data: bytes, size: int) -> np.ndarray:
    return _filled(lz4.decompress, data, int.from_bytes(data[:4], "little"), size)


def _decompress_zstd(data: bytes, size: int) -> np.ndarray:
    stated = _zstd_size(data)
    # Without a stated size, zstd fills the buffer or fails.
    return _filled(zstd.decompress, data, size if stated is None else stated, size)


def _zstd_size(data: bytes) -> int | None:
    """Returns the size in a frame's header, or None if the header states none."""
    if not data.startswith(_ZSTD_MAGIC) or len(data) < 6:
        raise ValueError("it does not begin with a frame of zstd")
    descriptor = data[4]
    is_single, flag = descriptor >> 5 & 1, descriptor >> 6
    length = (is_single, 2, 4, 8)[flag]
    start = 6 - is_single + (0, 1, 2, 4)[descriptor & 3]
    stated = int.from_bytes(data[start : start + length], "little") + (256 if length == 2 else 0)
    return stated if length else None


def _filled(decompress: Callable[[bytes, np.ndarray], object], data: bytes, stated: int, size: int) -> np.ndarray:
    if stated != size:
        raise ValueError(f"it unpacks to {stated} bytes instead of {size}")
    result = np.empty(size, np.uint8)
    decompress(data, result)
    return result


def _decompress_gzip(data: bytes, size: int) -> np.ndarray:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:  # of several members
        return _exact(file.read(size + 1), True, size)  # one more byte reveals a longer result


def _decompress_stream(stream: Any, data: bytes, size: int) -> np.ndarray:
    result = stream.decompress(data, size + 1)
    return _exact(result, stream.eof, size)


def _exact(result: bytes, is_complete: bool, size: int) -> np.ndarray:
    if len(result) > size:
        raise ValueError(f"it unpacks to more than the {size} bytes of a chunk")
    if not is_complete or len(result) < size:
        raise ValueError(f"it ends after {len(result)} of {size} bytes")
    return np.frombuffer(result, np.uint8)


# {name: function that decompresses to a number of bytes}
COMPRESSORS: dict[str, Callable[[bytes, int], np.ndarray]] = {
    "blosc": decompress_blosc,
    "zstd": _decompress_zstd,
    "gzip": _decompress_gzip,
    "zlib": lambda data, size: _decompress_stream(zlib.decompressobj(), data, size),
    "lz4": _decompress_lz4,
    "bz2": lambda data, size: _decompress_stream(bz2.BZ2Decompressor(), data, size),
}


@dataclass(frozen=True)
class ChunkCodec:
    """The encoding of a chunk's voxels.

    Attributes:
      shape: shape of a chunk; chunks at the border are padded to it.
      dtype: type of the stored numbers, including the byte order.
      order: the axes in the order of the stored bytes.
      compressor: a name of `COMPRESSORS`; None if the bytes are not compressed.
      checksums: number of checksums (crc32c) before and after compression.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    order: tuple[int, ...]
    compressor: str | None = None
    checksums: tuple[int, int] = (0, 0)

    @functools.cached_property
    def size(self) -> int:
        """Size of the voxels in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @functools.cached_property
    def largest(self) -> int:
        """The largest size of a chunk on disk in bytes."""
        return self.size + self.size // 8 + _SLACK

    def decode(self, data: bytes) -> np.ndarray:
        """Returns the voxels of a chunk.

        Args:
          data: the stored bytes.

        Raises:
          ValueError, RuntimeError, OSError, zlib.error: the bytes are damaged, or do not belong to such a chunk.
        """
        before, after = self.checksums
        for _ in range(after):
            data = checked(data)
        size = self.size + before * _CHECKSUM_BYTES
        if self.compressor is not None:
            data = COMPRESSORS[self.compressor](data, size)
        elif len(data) != size:
            raise ValueError(f"it has {len(data)} bytes instead of {size}")
        for _ in range(before):
            data = checked(bytes(data))
        stored_shape, order = self._axes
        return np.frombuffer(data, self.dtype).reshape(stored_shape).transpose(order)

    @functools.cached_property
    def _axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of the stored bytes, and the order of their axes in the array."""
        return tuple(self.shape[axis] for axis in self.order), tuple(np.argsort(self.order).tolist())


def checked(data: bytes) -> bytes:
    """Returns bytes without the checksum (crc32c) at their end.

    Raises:
      ValueError: the checksum does not match the bytes.
    """
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if google_crc32c.value(content).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        raise ValueError("its checksum does not match")
    return content
