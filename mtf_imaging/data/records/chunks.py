"""The size of the chunks of records, and a reader of chunks that checks their digests.

Zarr itself reads in an event loop in a separate thread. TensorFlow pipelines must not wait for that thread: if Python's
garbage collector deletes an unused pipeline there, the pipeline waits for its last reads, which in turn wait for the
thread. Chunks are therefore read and decoded in the caller's thread.
"""

import hashlib
import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.ome_zarr.array_layout import parse_layout
from mtf_imaging.data.formats.ome_zarr.stored_array import copy_chunk
from mtf_imaging.data.sampling.grid import Grid, parse_grid
from mtf_imaging.errors import ConfigError, DataError, LayoutError
from mtf_imaging.files.json_file import parse_json
from mtf_imaging.files.text_file import read_regular

REMAKE = "Fix: run convert again; it replaces damaged records."
METADATA = "zarr.json"
OURS = "mtf_imaging"  # the key of our attributes
MAX_METADATA_BYTES = 1 << 28  # enough for the digests of millions of chunks
_MAX_CHUNK_BYTES = 1 << 31  # the Blosc limit
_DEFAULT_CHUNK = 64  # voxels along each axis


def parse_chunk(chunk: str | int) -> Grid:
    """Parses the size of a chunk, in the format of a resolution.

    >>> parse_chunk("x:64,y:64,z:32")
    (64, 64, 32)

    Raises:
      ConfigError: x, y and z do not each have a positive size.
    """
    try:
        return parse_grid(chunk)
    except (DataError, LayoutError):
        what = f"chunk '{chunk}': needs a positive size for x, y and z. Fix: give, for example, 64 or 'x:64,y:64,z:32'."
        raise ConfigError(what, ["chunk"]) from None


def clip_chunk(chunk: Grid | None, grid: Grid) -> Grid:
    """Returns the chunk size of a record, which does not exceed its grid.

    >>> clip_chunk(None, (128, 128, 48))
    (64, 64, 48)

    Args:
      chunk: number of voxels along x, y, z; None for 64 along each axis.
      grid: the grid of the record.
    """
    x, y, z = (min(_DEFAULT_CHUNK if chunk is None else chunk[axis], size) for axis, size in enumerate(grid))
    return x, y, z


def digest(data: bytes) -> str:
    """Returns the digest of a file's contents."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class CheckedFolder:
    """The folder of a record, whose files are read only if they have the expected digests.

    Args:
      path: path of the folder.
      case: key of the case, for messages.
      digests: {path in the folder: digest of the file}. More can be added later.

    Attributes:
      bytes_read: number of bytes of chunks that were read.
    """

    def __init__(self, path: Path, case: str, digests: dict[str, str]) -> None:
        self.path, self.case, self.digests, self.bytes_read = path, case, digests, 0
        self._lock = threading.Lock()

    def read(self, name: str, largest: int = _MAX_CHUNK_BYTES) -> bytes:
        """Returns the contents of a file.

        Args:
          name: path of the file in the folder.
          largest: the largest size of a chunk that is read.

        Raises:
          DataError: the file is missing, unreadable, too large or outside of the folder, or its digest differs.
        """
        path = self.path / name
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"{self.path}: the record of case '{self.case}' names {name!r}, outside of it. {REMAKE}")
        what = "metadata" if path.name == METADATA else "chunk"
        try:
            data = read_regular(path, MAX_METADATA_BYTES if what == "metadata" else largest)
        except DataError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError) and not path.is_dir():
                raise
            raise DataError(f"{path}: this {what} of the record of case '{self.case}' is missing. {REMAKE}") from None
        if self.digests.get(name) != digest(data):
            of = f"this {what} of the record of case '{self.case}' is damaged: its digest does not match"
            raise DataError(f"{path}: {of}. {REMAKE}")
        if what == "chunk":
            with self._lock:
                self.bytes_read += len(data)
        return data


class ChunkedArray:
    """An array in Zarr format 3, compressed with Blosc, in a folder with known digests.

    Args:
      folder: the folder.
      name: path of the array in the folder.

    Attributes:
      shape: shape of the array.
      chunk: shape of a chunk. Chunks at the border are padded to this shape.
      dtype: dtype of the array.

    Raises:
      DataError: the metadata is missing or damaged.
      KeyError, TypeError, ValueError: the metadata does not describe such an array.
    """

    def __init__(self, folder: CheckedFolder, name: str) -> None:
        self._folder, self._name = folder, name
        metadata = parse_json(folder.read(f"{name}/{METADATA}"), folder.path / name / METADATA)
        if [codec["name"] for codec in metadata["codecs"]] != ["bytes", "blosc"]:
            raise ValueError(f"{name}: the codecs {metadata['codecs']} are not bytes and blosc")
        layout = parse_layout(metadata)
        self._codec = layout.codec
        self.shape, self.chunk, self.dtype = layout.shape, layout.chunk, layout.codec.dtype
        digests = metadata["attributes"][OURS]["digests"]
        folder.digests.update({f"{name}/{key}": value for key, value in dict(digests).items()})

    def read(self, ranges: Sequence[range], result: np.ndarray) -> None:
        """Reads part of the array; only the chunks that overlap it are read.

        Args:
          ranges: the indices along each axis.
          result: an array that receives the values.
        """
        if not all(map(len, ranges)):
            return
        touched = (range(r.start // n, -(-r.stop // n)) for r, n in zip(ranges, self.chunk, strict=True))
        for at in itertools.product(*touched):
            name = f"{self._name}/c/{'/'.join(map(str, at))}"
            data = self._folder.read(name, self._codec.largest)
            try:
                chunk = self._codec.decode(data)
            except (ValueError, RuntimeError) as error:
                what = f"this chunk of the record of case '{self._folder.case}' is damaged ({error})"
                raise DataError(f"{self._folder.path / name}: {what}. {REMAKE}") from error
            corner = [number * size for number, size in zip(at, self.chunk, strict=True)]
            copy_chunk(chunk, corner, [slice(r.start, r.stop) for r in ranges], result)
