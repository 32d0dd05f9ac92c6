"""A Zarr store in a folder that knows the digest of each of its files."""

import asyncio
import hashlib
import os
import threading
from pathlib import Path
from typing import Self

from zarr.abc.store import ByteRequest
from zarr.buffer.cpu import Buffer
from zarr.storage import LocalStore

from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named

REMAKE = "Fix: run convert again; it replaces damaged records."
METADATA = "zarr.json"


def digest(data: bytes | memoryview) -> str:
    """Returns the digest of the contents of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class CheckedStore(LocalStore):
    """A store to read from, which refuses files whose digests differ from the stated ones.

    Args:
      root: folder of the record.
      case: key of the case, for messages.
      digests: the digest of each file by its path in the folder. More can be added later.

    Attributes:
      bytes_read: number of bytes of chunks that were read.
    """

    def __init__(self, root: Path, case: str, digests: dict[str, str]) -> None:
        super().__init__(root, read_only=True)
        self.case, self.digests, self.bytes_read = case, digests, 0
        self._lock = threading.Lock()

    def with_read_only(self, read_only: bool = False) -> Self:
        """Returns this store, which is always read-only."""
        assert read_only, "this store is read-only"
        return self

    def read(self, key: str) -> bytes:
        """Returns the contents of a file.

        Raises:
          DataError: the file is missing or unreadable, or its digest differs.
        """
        path = self.root / key
        what = "metadata" if key.endswith(METADATA) else "chunk"
        try:
            with access_named(path):
                data = path.read_bytes()
        except DataError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                raise
            raise DataError(f"{path}: this {what} of the record of case '{self.case}' is missing. {REMAKE}") from None
        if self.digests.get(key) != digest(data):
            raise DataError(
                f"{path}: this {what} of the record of case '{self.case}' is damaged: its digest does not match. "
                f"{REMAKE}"
            )
        if what == "chunk":
            with self._lock:
                self.bytes_read += len(data)
        return data

    def get_sync(self, key: str, *, prototype=None, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Returns the contents of a file for Zarr."""
        assert byte_range is None, "chunks are read whole, to check their digests"
        return (prototype.buffer if prototype else Buffer).from_bytes(self.read(key))

    async def get(self, key: str, prototype=None, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Returns the contents of a file for Zarr; see `get_sync`."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)


class DigestingStore(LocalStore):
    """A store to write to, which computes the digest of each file.

    Args:
      root: folder of the record.

    Attributes:
      digests: the digest of each file by its path in the folder.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.digests: dict[str, str] = {}

    def set_sync(self, key: str, value: Buffer) -> None:
        """Writes a file for Zarr."""
        self.digests[key] = digest(value.as_numpy_array().data)
        super().set_sync(key, value)

    async def set(self, key: str, value: Buffer) -> None:
        """Writes a file for Zarr."""
        self.digests[key] = await asyncio.to_thread(digest, value.as_numpy_array().data)
        await super().set(key, value)

    def verify(self, name: str | os.PathLike) -> None:
        """Flushes all files to the disk, reads them again and compares their digests.

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
