"""A write-only Zarr store in a folder, which computes the digest of each file.

Zarr itself writes chunks in an event loop in a separate thread. That thread continues after Ctrl-C or an error, while
the folder is being deleted, and logs its unfinished tasks when the process ends. Chunks are therefore encoded and
written by threads that end before `write_chunks` returns or raises, even after Ctrl-C.
"""

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numcodecs import blosc
from zarr.codecs import BloscCodec
from zarr.storage import LocalStore

from mtf_imaging.data.records.chunks import digest
from mtf_imaging.errors import DataError
from mtf_imaging.files.interrupts import deferred_interrupts

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer

_COMPRESSOR, _LEVEL = "zstd", 5
_THREADS = 4
CODEC = BloscCodec(cname=_COMPRESSOR, clevel=_LEVEL, shuffle="shuffle")


class DigestingStore(LocalStore):
    """A write-only store that computes the digest of each file.

    Args:
      root: folder of the record.

    Attributes:
      digests: {path in the folder: digest of the file}.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.digests: dict[str, str] = {}

    def write(self, key: str, data: bytes) -> None:
        """Writes a file."""
        self.digests[key] = digest(data)
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def set_sync(self, key: str, value: "Buffer") -> None:
        """Writes a file for Zarr."""
        self.write(key, value.to_bytes())

    async def set(self, key: str, value: "Buffer") -> None:
        """Writes a file for Zarr, which uses this only for a few small files."""
        self.set_sync(key, value)

    def write_chunks(self, name: str, chunk: Sequence[int], first: Sequence[int], values: np.ndarray) -> None:
        """Writes whole chunks of an array, compressed with `CODEC`.

        Chunks of zeros are also written, so that a missing file is always an error.

        Args:
          name: path of the array in the store.
          chunk: shape of a chunk.
          first: the number of the first chunk along each axis.
          values: the values of the chunks. Partial chunks at the border are padded with zeros.
        """

        def write(at: Sequence[int]) -> None:
            if interrupts:
                return
            where = (slice(number * size, (number + 1) * size) for number, size in zip(at, chunk, strict=True))
            part = values[tuple(where)]
            padded = np.zeros(chunk, values.dtype.newbyteorder("<"))
            padded[tuple(map(slice, part.shape))] = part
            key = "/".join(str(number + offset) for number, offset in zip(at, first, strict=True))
            self.write(f"{name}/c/{key}", blosc.compress(padded, _COMPRESSOR.encode(), _LEVEL, blosc.SHUFFLE))

        numbers = (range(-(-size // length)) for size, length in zip(values.shape, chunk, strict=True))
        # Blosc is deterministic only outside the main thread, where it does not start its own threads.
        with deferred_interrupts() as interrupts, ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(write, itertools.product(*numbers)):
                pass

    def verify(self, name: str | os.PathLike) -> None:
        """Flushes all files to disk, reads them again and compares their digests.

        Args:
          name: the final path of the record, for messages.

        Raises:
          DataError: the bytes on disk differ from those written.
        """
        for key, expected in self.digests.items():
            with open(self.root / key, "rb") as file:
                os.fsync(file.fileno())
                if hasattr(os, "posix_fadvise"):  # drop the page cache, to read from the disk
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                if digest(file.read()) != expected:
                    what = "the bytes on disk differ from those written"
                    raise DataError(f"{name}/{key}: {what}. Fix: check the disk, or use another disk.")
