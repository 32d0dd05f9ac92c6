"""Reads the chunks of arrays in Zarr, and checks their digests.

Zarr itself reads in an event loop, which runs in a thread of its own. Pipelines of TensorFlow must not wait for that
thread: if Python's garbage collector deletes an unused pipeline there, the pipeline waits for its last reads, and these
wait for the thread. Chunks are therefore read and decoded in the thread of the caller.
"""

import hashlib
import itertools
import json
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numcodecs import blosc

from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named

REMAKE = "Fix: run convert again; it replaces damaged records."
METADATA = "zarr.json"
OURS = "mtf_imaging"  # the name of our attributes


def digest(data: bytes) -> str:
    """Returns the digest of the contents of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class CheckedFolder:
    """The folder of a record, whose files are read only if their digests are the stated ones.

    Args:
      path: path of the folder.
      case: key of the case, for messages.
      digests: the digest of each file by its path in the folder. More can be added later.

    Attributes:
      bytes_read: number of bytes of chunks that were read.
    """

    def __init__(self, path: Path, case: str, digests: dict[str, str]) -> None:
        self.path, self.case, self.digests, self.bytes_read = path, case, digests, 0
        self._lock = threading.Lock()

    def read(self, name: str) -> bytes:
        """Returns the contents of a file.

        Raises:
          DataError: the file is missing or unreadable, or its digest differs.
        """
        path = self.path / name
        what = "metadata" if path.name == METADATA else "chunk"
        try:
            with reading_named(path):
                data = path.read_bytes()
        except DataError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError | IsADirectoryError):
                raise
            raise DataError(f"{path}: this {what} of the record of case '{self.case}' is missing. {REMAKE}") from None
        if self.digests.get(name) != digest(data):
            raise DataError(
                f"{path}: this {what} of the record of case '{self.case}' is damaged: its digest does not match. "
                f"{REMAKE}"
            )
        if what == "chunk":
            with self._lock:
                self.bytes_read += len(data)
        return data


class ChunkedArray:
    """An array in Zarr format 3, compressed by Blosc, in a folder that states its digests.

    Args:
      folder: the folder.
      name: path of the array in the folder.

    Attributes:
      shape: shape of the array.
      chunk: shape of a chunk. Chunks at the border are padded to this shape.
      dtype: dtype of the array.

    Raises:
      DataError: the metadata are missing or damaged.
      KeyError, TypeError, ValueError: the metadata are not those of such an array.
    """

    def __init__(self, folder: CheckedFolder, name: str) -> None:
        self._folder, self._name = folder, name
        metadata = json.loads(folder.read(f"{name}/{METADATA}"))
        if [codec["name"] for codec in metadata["codecs"]] != ["bytes", "blosc"]:
            raise ValueError(f"{name}: the codecs {metadata['codecs']} are not bytes and blosc")
        self.shape = tuple(metadata["shape"])
        self.chunk = tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
        self.dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
        digests = metadata["attributes"][OURS]["digests"]
        folder.digests.update({f"{name}/{key}": value for key, value in digests.items()})

    def read(self, ranges: Sequence[range], result: np.ndarray) -> None:
        """Reads part of the array; only the chunks that overlap it are read.

        Args:
          ranges: the indices along each axis.
          result: is filled with the values.
        """
        if not all(map(len, ranges)):
            return
        touched = (range(r.start // n, -(-r.stop // n)) for r, n in zip(ranges, self.chunk, strict=True))
        for at in itertools.product(*touched):
            data = blosc.decompress(self._folder.read(f"{self._name}/c/{'/'.join(map(str, at))}"))
            chunk = np.frombuffer(data, self.dtype).reshape(self.chunk)
            source, target = [], []
            for number, size, r in zip(at, self.chunk, ranges, strict=True):
                first, stop = max(r.start, number * size), min(r.stop, (number + 1) * size)
                source.append(slice(first - number * size, stop - number * size))
                target.append(slice(first - r.start, stop - r.start))
            result[tuple(target)] = chunk[tuple(source)]
