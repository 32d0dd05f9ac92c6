"""Parses the metadata of arrays in Zarr format 2."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.data.formats.ome_zarr.array_layout import (
    ArrayLayout,
    check_layout,
    parse_compressor,
    parse_dtype,
    parse_fill_value,
    parse_sizes,
    refuse,
    shown,
)
from mtf_imaging.data.formats.ome_zarr.codecs import ChunkCodec

FORMAT = 2


def parse_v2(where: Path, fields: Mapping[str, Any]) -> ArrayLayout:
    """Parses the metadata of an array.

    Args:
      where: the file `.zarray`, for messages.
      fields: its contents.

    Raises:
      DataError: the metadata are malformed, or name an unsupported codec.
    """
    if fields.get("zarr_format") != FORMAT:
        refuse(where, f"its zarr_format is {shown(fields.get('zarr_format'))}, not {FORMAT}", "fetch the image again")
    if fields.get("filters"):
        names = [each.get("id") if isinstance(each, Mapping) else each for each in _list(fields["filters"])]
        refuse(where, f"its chunks have the filters {shown(names)}, but chunks with filters are not decoded")
    shape = parse_sizes(where, "shape", fields.get("shape"))
    stated = fields.get("dtype")
    dtype = parse_dtype(where, stated, stated if isinstance(stated, str) else None)
    order, separator = fields.get("order", "C"), fields.get("dimension_separator", ".")
    if order not in ("C", "F") or separator not in (".", "/"):
        refuse(where, f"its order is {shown(order)} and its dimension_separator {shown(separator)}")
    axes = tuple(range(len(shape)))
    compressor = fields.get("compressor")
    if compressor is not None:
        compressor = parse_compressor(where, compressor.get("id") if isinstance(compressor, Mapping) else compressor)
    codec = ChunkCodec(
        shape=parse_sizes(where, "chunks", fields.get("chunks")),
        dtype=dtype,
        order=axes if order == "C" else axes[::-1],
        compressor=compressor,
    )
    fill_value = parse_fill_value(where, fields.get("fill_value"), dtype)
    return check_layout(where, ArrayLayout(shape, codec, fill_value, prefix="", separator=separator))


def _list(value: Any) -> list:
    return value if isinstance(value, list) else [value]
