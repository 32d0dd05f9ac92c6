"""The layout of a Zarr array according to its metadata, checked before any chunk is read."""

import dataclasses
import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mtf_imaging.data.formats.ome_zarr.codecs import COMPRESSORS, ChunkCodec
from mtf_imaging.errors import DataError

WRITE_AGAIN = "write the image again, for example with chunks of 64 x 64 x 64 voxels and the codec blosc or zstd"
_MAX_CHUNK_BYTES = (1 << 31) - 1  # the limit of Blosc
_MAX_PADDED_BYTES = 1 << 28  # for a chunk that is larger than its array
MAX_VOXELS = 1 << 40
_MAX_CHUNKS_OF_SHARD = 1 << 22
_NUMBERS = "iufb"
_MAX_ITEM_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Shards:
    """Files with several chunks each.

    Attributes:
      shape: size of a file along each axis, in voxels.
      index_first: whether the chunk index is at the start of the file instead of the end.
      has_checksum: whether the index has a checksum.
    """

    shape: tuple[int, ...]
    index_first: bool
    has_checksum: bool


@dataclasses.dataclass(frozen=True)
class ArrayLayout:
    """The layout of an array on disk.

    Attributes:
      shape: number of voxels along each axis.
      codec: the shape and the encoding of a chunk.
      fill_value: the value of voxels in missing chunks.
      prefix: the first part of each file name, such as "c"; "" if there is none.
      separator: "/" or ".", between the parts of a file name.
      shards: the files, if they contain several chunks; otherwise None.
      attributes: the attributes of the array.
    """

    shape: tuple[int, ...]
    codec: ChunkCodec
    fill_value: np.generic
    prefix: str
    separator: str
    shards: Shards | None = None
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def chunk(self) -> tuple[int, ...]:
        """Size of a chunk along each axis, in voxels."""
        return self.codec.shape

    @property
    def file_shape(self) -> tuple[int, ...]:
        """Size of a file along each axis, in voxels."""
        return self.codec.shape if self.shards is None else self.shards.shape

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of files along each axis."""
        return tuple(-(-size // step) for size, step in zip(self.shape, self.file_shape, strict=True))

    def key(self, at: tuple[int, ...]) -> str:
        """Returns the name of the file at a position in the grid of files."""
        return self.separator.join([*([self.prefix] if self.prefix else []), *map(str, at)])


def check_layout(where: Path, layout: ArrayLayout) -> ArrayLayout:
    """Checks the sizes that the metadata of an array declare, and returns its layout.

    Args:
      where: the file of the metadata, for messages.
      layout: the layout.

    Raises:
      DataError: the sizes contradict each other, or are too large for an image.
    """
    shape, chunk = layout.shape, layout.chunk
    if min(shape) < 1:
        raise DataError(
            f"{where}: the array has the shape {shown(shape)}, so it has no voxels. Fix: fetch the image again."
        )
    for name, sizes in (("chunks", chunk), ("shards", layout.file_shape)):
        if len(sizes) != len(shape) or min(sizes) < 1:
            refuse(where, f"has {name} of the shape {shown(sizes)}, but the array has the shape {shown(shape)}")
    if math.prod(shape) > MAX_VOXELS:
        refuse(where, f"declares the shape {shown(shape)}, which is more than 2^40 voxels")
    size, array_size = layout.codec.size, math.prod(shape) * layout.codec.dtype.itemsize
    if size > min(_MAX_CHUNK_BYTES, max(_MAX_PADDED_BYTES, array_size)):
        refuse(
            where,
            f"has chunks of the shape {shown(chunk)}, which are {shown(size)} bytes each, but the array "
            f"has {array_size} bytes, and a chunk may have {_MAX_CHUNK_BYTES}",
        )
    if layout.shards is not None:
        shard = layout.shards.shape
        if any(whole % part for whole, part in zip(shard, chunk, strict=True)):
            refuse(where, f"has shards of the shape {shard}, which are no multiples of their chunks {chunk}")
        if math.prod(shard) // math.prod(chunk) > _MAX_CHUNKS_OF_SHARD:
            refuse(where, f"has shards of the shape {shard} with more than {_MAX_CHUNKS_OF_SHARD} chunks {chunk}")
    return layout


def refuse(where: Path, what: str, fix: str = WRITE_AGAIN) -> NoReturn:
    """Raises the DataError for an array that cannot be read.

    Args:
      where: the file of the metadata.
      what: what is wrong.
      fix: the fix.
    """
    raise DataError(f"{where}: {what}. Fix: {fix}.")


def shown(value: Any) -> str:
    """Shortens a metadata value for messages."""
    return reprlib.repr(value)


def parse_sizes(where: Path, name: str, value: Any) -> tuple[int, ...]:
    """Returns a list of sizes from the metadata.

    Args:
      where: the file of the metadata, for messages.
      name: the name of the list in the metadata.
      value: the value.

    Raises:
      DataError: the value is not a list of integers.
    """
    if not isinstance(value, list) or not value or not all(type(size) is int for size in value):
        refuse(where, f"its '{name}' is {shown(value)}, not a list of integers", "fetch the image again")
    return tuple(value)


def parse_dtype(where: Path, value: Any, name: str | None) -> np.dtype:
    """Returns the type of the stored numbers.

    Args:
      where: the file of the metadata, for messages.
      value: the type as the metadata state it.
      name: the name of the type in NumPy; None if the metadata state none.

    Raises:
      DataError: the voxels are not plain numbers.
    """
    try:
        dtype = None if name is None else np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind not in _NUMBERS or dtype.itemsize > _MAX_ITEM_BYTES or dtype.shape:
        shown_type = shown(value) if dtype is None else dtype
        refuse(where, f"voxels are of type {shown_type}, not plain numbers", "store one number (HU or label) per voxel")
    return dtype


def parse_fill_value(where: Path, value: Any, dtype: np.dtype) -> np.generic:
    """Returns the value of voxels in missing chunks.

    Args:
      where: the file of the metadata, for messages.
      value: the value as the metadata state it. None means 0.
      dtype: type of the stored numbers.

    Raises:
      DataError: the value does not have this type.
    """
    native = dtype.newbyteorder("=")
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if value is None:
        return native.type(0)
    if native.kind == "f" and isinstance(value, str):
        if value in special:
            return native.type(special[value])
        try:  # the bits of a float, as in 0x7fc00000
            bits = bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            bits = b""
        if value.startswith("0x") and len(bits) == native.itemsize:
            return np.frombuffer(bits, native.newbyteorder(">"))[0].astype(native)
    elif native.kind == "b":
        if isinstance(value, bool) or value in (0, 1):
            return native.type(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if native.kind == "f" and (not isinstance(value, int) or abs(value) < 1 << 64):
            with np.errstate(over="ignore"):  # infinity, as in Zarr
                return native.type(value)
        if native.kind in "iu" and (isinstance(value, int) or value.is_integer()):
            limits = np.iinfo(native)
            if limits.min <= value <= limits.max:
                return native.type(int(value))
    refuse(where, f"its fill_value is {shown(value)}, but the voxels are {native}", "repair the metadata")


def parse_compressor(where: Path, name: Any) -> str:
    """Returns the name of a compressor without Zarr's prefix for numcodecs.

    Args:
      where: the file of the metadata, for messages.
      name: the name.

    Raises:
      DataError: this package does not decode the codec.
    """
    plain = name.removeprefix("numcodecs.") if isinstance(name, str) else name
    if not isinstance(plain, str) or plain not in COMPRESSORS:
        refuse(where, f"its chunks have the codec {shown(name)}, but only {', '.join(COMPRESSORS)} are decoded")
    return plain
