"""Parses the metadata of arrays in Zarr format 3."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.formats.ome_zarr.array_layout import (
    ArrayLayout,
    Shards,
    check_layout,
    parse_compressor,
    parse_dtype,
    parse_fill_value,
    parse_sizes,
    refuse,
    shown,
)
from mtf_imaging.data.formats.ome_zarr.codecs import ChunkCodec

FORMAT = 3
_INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
# Complex numbers are refused later, by their name.
_DTYPES = ("bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
_ENDIANS = {"little": "<", "big": ">"}
_SHARDING, _CHECKSUM = "sharding_indexed", "crc32c"
_INDEX_CODECS = ([("bytes", "little"), _CHECKSUM], [("bytes", "little")])
_KNOWN = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
    *("attributes", "storage_transformers", "dimension_names", "consolidated_metadata"),
}


def parse_v3(where: Path, fields: Mapping[str, Any]) -> ArrayLayout:
    """Parses the metadata of an array.

    Args:
      where: the file `zarr.json`, for messages.
      fields: its contents.

    Raises:
      DataError: the metadata are malformed, or name a codec or an extension that is not supported.
    """
    if fields.get("zarr_format") != FORMAT or fields.get("node_type") != "array":
        what = f"zarr_format {shown(fields.get('zarr_format'))}, node_type {shown(fields.get('node_type'))}"
        refuse(where, f"is not the metadata of an array in Zarr format {FORMAT} ({what})", "fetch the image again")
    unknown = {name for name, value in fields.items() if name not in _KNOWN and not _is_optional(value)}
    if unknown or fields.get("storage_transformers"):
        names = sorted(unknown) or "storage_transformers"
        refuse(where, f"needs the extension {shown(names)} of Zarr, which is not supported")
    shape = parse_sizes(where, "shape", fields.get("shape"))
    stated = fields.get("data_type")
    dtype = parse_dtype(where, stated, stated if stated in _DTYPES else None)
    grid, configuration = _named(where, "chunk_grid", fields.get("chunk_grid"))
    if grid != "regular":
        refuse(where, f"its chunk_grid is {shown(grid)}, not regular")
    files = parse_sizes(where, "chunk_shape", configuration.get("chunk_shape"))
    prefix, separator = _parse_keys(where, fields.get("chunk_key_encoding"))
    codecs = _codec_list(where, fields.get("codecs"))
    shards = None
    chunk = files
    if any(name == _SHARDING for name, _ in codecs):
        shards, chunk, codecs = _parse_sharding(where, files, codecs)
    attributes = fields.get("attributes")
    return check_layout(
        where,
        ArrayLayout(
            shape=shape,
            codec=_parse_codecs(where, chunk, dtype, codecs),
            fill_value=parse_fill_value(where, fields.get("fill_value"), dtype),
            prefix=prefix,
            separator=separator,
            shards=shards,
            attributes=attributes if isinstance(attributes, Mapping) else {},
        ),
    )


def _is_optional(value: Any) -> bool:
    """Returns whether a reader may ignore an extension."""
    return isinstance(value, Mapping) and value.get("must_understand") is False


def _named(where: Path, what: str, value: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the name and the configuration of a metadata object, which may also be a bare name."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping):
        name, configuration = value.get("name"), value.get("configuration") or {}
        if isinstance(name, str) and isinstance(configuration, Mapping):
            return name, configuration
    refuse(where, f"its '{what}' is {shown(value)}, not an object with a name", "fetch the image again")


def _parse_keys(where: Path, value: Any) -> tuple[str, str]:
    """Returns the prefix and the separator of file names."""
    name, configuration = _named(where, "chunk_key_encoding", value)
    if name in ("default", "v2"):
        separator = configuration.get("separator", "/" if name == "default" else ".")
        if separator in ("/", "."):
            return ("c" if name == "default" else "", separator)
    refuse(where, f"its chunk_key_encoding is {shown(value)}, not default or v2")


def _codec_list(where: Path, value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, list) or not value:
        refuse(where, f"its 'codecs' are {shown(value)}, not a list of codecs", "fetch the image again")
    return [_named(where, "codecs", each) for each in value]


def _parse_sharding(
    where: Path, files: tuple[int, ...], codecs: list[tuple[str, Mapping[str, Any]]]
) -> tuple[Shards, tuple[int, ...], list[tuple[str, Mapping[str, Any]]]]:
    """Returns the shards, and the shape and the codecs of their chunks."""
    if len(codecs) > 1:
        names = [name for name, _ in codecs]
        refuse(where, f"its codecs are {shown(names)}, but {_SHARDING} is supported as the only one")
    configuration = codecs[0][1]
    index = [
        (name, options.get("endian")) if name == "bytes" else name
        for name, options in _codec_list(where, configuration.get("index_codecs"))
    ]
    location = configuration.get("index_location", "end")
    if index not in _INDEX_CODECS or location not in ("start", "end"):
        refuse(where, f"the index of its shards has the codecs {shown(index)} and the location {shown(location)}")
    chunk = parse_sizes(where, "chunk_shape", configuration.get("chunk_shape"))
    shards = Shards(files, index_first=location == "start", has_checksum=_CHECKSUM in index)
    return shards, chunk, _codec_list(where, configuration.get("codecs"))


def _parse_codecs(
    where: Path, chunk: tuple[int, ...], dtype: np.dtype, codecs: list[tuple[str, Mapping[str, Any]]]
) -> ChunkCodec:
    """Returns the chunk codec: an optional transpose, bytes, then optional compression and checksums."""
    names = [name for name, _ in codecs]
    order = tuple(range(len(chunk)))
    if names[0] == "transpose":
        order = parse_sizes(where, "order", codecs[0][1].get("order"))
        if sorted(order) != [*range(len(chunk))]:
            refuse(where, f"its codec transpose has the order {order}, but a chunk has the shape {chunk}")
        codecs = codecs[1:]
    for name, _ in codecs:  # report an unknown codec first
        if name not in ("bytes", _CHECKSUM):
            parse_compressor(where, name)
    if not codecs or codecs[0][0] != "bytes":
        refuse(where, f"its codecs are {shown(names)}, but the first is not bytes, which may follow transpose")
    later = [name for name, _ in codecs[1:]]
    compressors = [name for name in later if name != _CHECKSUM]
    if len(compressors) > 1 or "bytes" in compressors:
        refuse(where, f"its codecs are {shown(names)}, but at most one may compress")
    before = later.index(compressors[0]) if compressors else 0
    endian = codecs[0][1].get("endian", "little")
    if endian not in tuple(_ENDIANS):
        refuse(where, f"its codec bytes has the endian {shown(endian)}, not little or big")
    return ChunkCodec(
        shape=chunk,
        dtype=dtype.newbyteorder(_ENDIANS[endian]),
        order=order,
        compressor=parse_compressor(where, compressors[0]) if compressors else None,
        checksums=(before, later.count(_CHECKSUM) - before),
    )
