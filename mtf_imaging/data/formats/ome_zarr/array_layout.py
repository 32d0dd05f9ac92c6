"""The layout of a Zarr array according to its metadata in format 2 or 3, checked before any chunk is read."""

import dataclasses
import math
import operator
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from mtf_imaging.data.formats.ome_zarr.codecs import COMPRESSORS, ChunkCodec
from mtf_imaging.files.reading import Fault

MAX_VOXELS = 1 << 40
_MAX_CHUNK_BYTES = (1 << 31) - 1  # the limit of Blosc
_MAX_PADDED_BYTES = 1 << 28  # for a chunk that is larger than its array
_MAX_CHUNKS_OF_SHARD = 1 << 22
_NUMBERS = "iufb"
_MAX_ITEM_BYTES = 8
_ENDIANS = {"little": "<", "big": ">"}
_SHARDING, _CHECKSUM = "sharding_indexed", "crc32c"
_INDEX_CODECS = ([("bytes", "little"), _CHECKSUM], [("bytes", "little")])
_KNOWN = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
    *("attributes", "storage_transformers", "dimension_names", "consolidated_metadata"),
}
# Name and configuration of a codec.
_Codec = tuple[str, Mapping[str, Any]]


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


def parse_layout(fields: Mapping[str, Any]) -> ArrayLayout:
    """Parses the metadata of an array.

    Args:
      fields: the contents of the file `.zarray` (format 2) or `zarr.json` (format 3).

    Raises:
      Fault: the metadata name an unsupported codec or extension; or the sizes contradict each other, or are too large
        for an image.
      KeyError, TypeError, ValueError, AttributeError, OverflowError: the metadata are malformed.
    """
    layout = _parse_v3(fields) if fields["zarr_format"] == 3 else _parse_v2(fields)
    shape, chunk, shard = layout.shape, layout.chunk, layout.file_shape
    shown = f"the shape {shown_value(shape)} and chunks of the shape {shown_value(chunk)}"
    if not len(shape) == len(chunk) == len(shard) or min(*shape, *chunk, *shard) < 1 or math.prod(shape) > MAX_VOXELS:
        limit = "but sizes are at least 1, one for each axis, and an array has at most 2^40 voxels"
        raise Fault(f"declares {shown}, {limit}")
    size, array_size = layout.codec.size, math.prod(shape) * layout.codec.dtype.itemsize
    if size > min(_MAX_CHUNK_BYTES, max(_MAX_PADDED_BYTES, array_size)):
        limit = f"but the array has {array_size} bytes, and a chunk may have {_MAX_CHUNK_BYTES}"
        raise Fault(f"declares {shown}, which are {shown_value(size)} bytes each, {limit}")
    is_divided = all(whole % part == 0 for whole, part in zip(shard, chunk, strict=True))
    if not is_divided or math.prod(shard) // math.prod(chunk) > _MAX_CHUNKS_OF_SHARD:
        limit = f"which have to be multiples of the chunks {chunk}, with at most {_MAX_CHUNKS_OF_SHARD} of them"
        raise Fault(f"has shards of the shape {shown_value(shard)}, {limit}")
    return layout


def shown_value(value: object) -> str:
    """Shortens a metadata value for messages."""
    return reprlib.repr(value)


def _parse_v2(fields: Mapping[str, Any]) -> ArrayLayout:
    order, separator = fields.get("order", "C"), fields.get("dimension_separator", ".")
    if fields["zarr_format"] != 2 or order not in ("C", "F") or separator not in (".", "/"):
        stated = {name: fields.get(name) for name in ("zarr_format", "order", "dimension_separator")}
        raise Fault(f"states {shown_value(stated)}, of which one is not supported")
    if filters := fields.get("filters"):
        raise Fault(f"its chunks have the filters {[each['id'] for each in filters]}, but filters are not decoded")
    shape, dtype, compressor = _sizes(fields["shape"]), _dtype(fields["dtype"]), fields.get("compressor")
    axes = tuple(range(len(shape)))
    codec = ChunkCodec(
        shape=_sizes(fields["chunks"]),
        dtype=dtype,
        order=axes if order == "C" else axes[::-1],
        compressor=None if compressor is None else _compressor(compressor.get("id")),
    )
    return ArrayLayout(shape, codec, _fill_value(fields.get("fill_value"), dtype), prefix="", separator=separator)


def _parse_v3(fields: Mapping[str, Any]) -> ArrayLayout:
    if fields["node_type"] != "array":
        raise Fault(f"is not the metadata of an array, but of a {shown_value(fields['node_type'])}")
    needed = {name for name, value in fields.items() if name not in _KNOWN and not _is_optional(value)}
    if needed or fields.get("storage_transformers"):
        raise Fault(f"needs the extension {sorted(needed) or 'storage_transformers'} of Zarr, which is not supported")
    dtype = _dtype(fields["data_type"])
    (grid, chunks), (encoding, names) = _named(fields["chunk_grid"]), _named(fields["chunk_key_encoding"])
    separator = names.get("separator", "/" if encoding == "default" else ".")
    if grid != "regular" or encoding not in ("default", "v2") or separator not in ("/", "."):
        names = f"{shown_value(encoding)} {shown_value(separator)}"
        what = f"chunk_grid {shown_value(grid)} and the chunk_key_encoding {names}"
        raise Fault(f"has the {what}, of which one is not supported")
    codecs, chunk, shards = [_named(each) for each in fields["codecs"]], _sizes(chunks["chunk_shape"]), None
    if any(name == _SHARDING for name, _ in codecs):
        chunk, codecs, shards = _parse_sharding(chunk, codecs)
    return ArrayLayout(
        shape=_sizes(fields["shape"]),
        codec=_parse_codecs(chunk, dtype, codecs),
        fill_value=_fill_value(fields.get("fill_value"), dtype),
        prefix="c" if encoding == "default" else "",
        separator=separator,
        shards=shards,
        attributes=dict(fields.get("attributes") or {}),
    )


def _parse_sharding(files: tuple[int, ...], codecs: list[_Codec]) -> tuple[tuple[int, ...], list[_Codec], Shards]:
    """Returns the shape and the codecs of the chunks in files, and the files."""
    (_, configuration), *others = codecs
    index = [
        (name, options.get("endian")) if name == "bytes" else name
        for name, options in map(_named, configuration["index_codecs"])
    ]
    location = configuration.get("index_location", "end")
    if others or index not in _INDEX_CODECS or location not in ("start", "end"):
        what = f"{[name for name, _ in codecs]}, and the index of its shards has the codecs {index} at the {location}"
        raise Fault(f"has the codecs {what}, of which one is not supported")
    shards = Shards(files, index_first=location == "start", has_checksum=_CHECKSUM in index)
    return _sizes(configuration["chunk_shape"]), [_named(each) for each in configuration["codecs"]], shards


def _parse_codecs(chunk: tuple[int, ...], dtype: np.dtype, codecs: list[_Codec]) -> ChunkCodec:
    """Returns the chunk codec: an optional transpose, bytes, then optional compression and checksums."""
    names, order = [name for name, _ in codecs], tuple(range(len(chunk)))
    if names[:1] == ["transpose"]:
        order, codecs = _sizes(codecs[0][1]["order"]), codecs[1:]
        if sorted(order) != [*range(len(chunk))]:
            raise Fault(f"its codec transpose has the order {order}, but a chunk has the shape {chunk}")
    compressors = [_compressor(name) for name, _ in codecs if name not in ("bytes", _CHECKSUM)]
    later = [name for name, _ in codecs[1:]]
    endian = codecs[0][1].get("endian", "little") if codecs else None
    if not codecs or codecs[0][0] != "bytes" or "bytes" in later or len(compressors) > 1 or endian not in _ENDIANS:
        what = "but bytes, little or big, comes once, after an optional transpose, and at most one codec may compress"
        raise Fault(f"its codecs are {shown_value(names)}, {what}")
    before = next((at for at, name in enumerate(later) if name != _CHECKSUM), 0)
    return ChunkCodec(
        shape=chunk,
        dtype=dtype.newbyteorder(_ENDIANS[endian]),
        order=order,
        compressor=compressors[0] if compressors else None,
        checksums=(before, later.count(_CHECKSUM) - before),
    )


def _named(value: object) -> _Codec:
    """Returns the name and the configuration of a metadata object, which may also be a bare name."""
    return (value, {}) if isinstance(value, str) else (value["name"], value.get("configuration") or {})


def _is_optional(value: object) -> bool:
    """Returns whether a reader may ignore an extension."""
    return isinstance(value, Mapping) and value.get("must_understand") is False


def _sizes(value: object) -> tuple[int, ...]:
    return tuple(map(operator.index, value))


def _dtype(name: object) -> np.dtype:
    """Returns the type of the stored numbers, whose name is the same in NumPy."""
    try:
        dtype = np.dtype(name if isinstance(name, str) else object)
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    if dtype.kind not in _NUMBERS or dtype.itemsize > _MAX_ITEM_BYTES or dtype.shape:
        fix = "store one number (HU or label) per voxel"
        raise Fault(f"voxels are of type {shown_value(name)}, not plain numbers", fix)
    return dtype


def _fill_value(value: object, dtype: np.dtype) -> np.generic:
    """Returns the value of voxels in missing chunks; None in the metadata means 0."""
    native = dtype.newbyteorder("=")
    try:
        if isinstance(value, str) and value.startswith("0x") and native.kind == "f":  # the bits of a float
            (found,) = np.frombuffer(bytes.fromhex(value[2:]), native.newbyteorder(">")).astype(native)
            return found
        with np.errstate(over="ignore"):  # infinity, as in Zarr
            found = native.type(0 if value is None else value)
        is_exact = native.kind == "f" or (found == (value or 0) and (native.kind == "b") >= isinstance(value, bool))
    except (TypeError, ValueError, OverflowError):
        is_exact = False
    if not is_exact or isinstance(value, list | Mapping):
        raise Fault(f"its fill_value is {shown_value(value)}, but the voxels are {native}", "repair the metadata")
    return found


def _compressor(name: object) -> str:
    """Returns the name of a compressor without Zarr's prefix for numcodecs."""
    plain = name.removeprefix("numcodecs.") if isinstance(name, str) else name
    if plain not in [*COMPRESSORS]:
        raise Fault(f"its chunks have the codec {shown_value(name)}, but only {', '.join(COMPRESSORS)} are decoded")
    return plain
