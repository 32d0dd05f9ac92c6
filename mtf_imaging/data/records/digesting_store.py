"""A write-only Zarr store in a folder, which computes the digest of each file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from zarr.storage import LocalStore

from mtf_imaging.data.records.chunks import digest
from mtf_imaging.errors import DataError

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer


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
                    raise DataError(
                        f"{name}/{key}: the bytes on disk differ from those written. "
                        "Fix: check the disk, or use another disk."
                    )
