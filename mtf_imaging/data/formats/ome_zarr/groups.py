"""Reads the metadata of Zarr groups and arrays, without Zarr.

Zarr itself creates all codecs that the array metadata name, and some of these run code from the chunks. Consolidated
metadata, which repeat the metadata of the files, are not read.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.data.formats.ome_zarr.array_layout import ArrayLayout, refuse, shown
from mtf_imaging.data.formats.ome_zarr.zarr_v2 import parse_v2
from mtf_imaging.data.formats.ome_zarr.zarr_v3 import parse_v3
from mtf_imaging.errors import DataError
from mtf_imaging.files.json_file import read_json
from mtf_imaging.files.reading import access_named

_V3, _V2_GROUP, _V2_ARRAY, _V2_ATTRIBUTES = "zarr.json", ".zgroup", ".zarray", ".zattrs"
_FETCH = "fetch the image again"
_MAX_BYTES = 1 << 27
_NAME = re.compile(r"[^/\\:\0]+(/[^/\\:\0]+)*")  # no URL, and no absolute path on any system


def read_attributes(path: Path) -> Mapping[str, Any]:
    """Returns the attributes of a group in Zarr format 2 or 3.

    Args:
      path: the folder of the group.

    Raises:
      DataError: the folder is missing or not a group, or its metadata are damaged.
    """
    if path.is_file():
        raise DataError(f"{path}: is a file, but an OME-Zarr image is a folder. Fix: unpack it if it is an archive.")
    if not path.is_dir():
        raise DataError(f"{path}: this OME-Zarr folder does not exist. Fix: check the path.")
    with access_named(path):
        is_v3, is_v2 = (os.path.lexists(path / name) for name in (_V3, _V2_GROUP))
    if is_v3:
        fields = _read(path / _V3)
        is_group = fields.get("zarr_format") == 3 and fields.get("node_type") == "group"
        attributes = fields.get("attributes", {})
    elif is_v2:
        is_group = _read(path / _V2_GROUP).get("zarr_format") == 2
        has_attributes = os.path.lexists(path / _V2_ATTRIBUTES)
        attributes = _read(path / _V2_ATTRIBUTES) if has_attributes else {}
    else:
        is_group, attributes = False, {}
    if not is_group or not isinstance(attributes, Mapping):
        what = f"{_V3 if is_v3 else _V2_GROUP} is not that of a group" if is_v3 or is_v2 else f"no {_V3} or {_V2_GROUP}"
        raise DataError(
            f"{path}: cannot be read as a Zarr group ({what}). Its metadata is missing or damaged, or it is another "
            "folder. Fix: give the folder of an OME-Zarr image."
        )
    return attributes


def array_folder(path: Path, name: str) -> Path:
    """Returns the folder of an image's array.

    Args:
      path: the folder of the image.
      name: the path of the array in it, as its metadata state it.

    Raises:
      DataError: the path is outside the image, or there is no array.
    """
    if not _NAME.fullmatch(name) or {".", ".."} & {*name.split("/")}:
        refuse(path, f"its metadata names the array {shown(name)}, which is not a path in this folder", _FETCH)
    try:
        root, folder = (os.path.realpath(each, strict=True) for each in (path, path / name))
        is_array = os.path.isdir(folder)
    except OSError as error:
        what = f"its array {shown(name)} cannot be opened ({error.strerror})"
        raise DataError(f"{path}: {what}. It is missing, or a link is broken. Fix: {_FETCH}.") from error
    if os.path.commonpath([root, folder]) != root:
        refuse(path, f"its array {shown(name)} is a link to {folder}, outside of the image", "copy the array into it")
    if not is_array:
        refuse(path, f"its array {shown(name)} cannot be opened (it is not a folder)", _FETCH)
    return path / name


def read_layout(folder: Path) -> ArrayLayout:
    """Returns the layout of an array in Zarr format 2 or 3.

    Args:
      folder: the folder of the array.

    Raises:
      DataError: the folder is not an array, its metadata are damaged, or they name an unsupported codec.
    """
    with access_named(folder):
        is_v3, is_v2 = (os.path.lexists(folder / name) for name in (_V3, _V2_ARRAY))
    if not is_v3 and not is_v2:
        refuse(folder, f"this array has no {_V3} or {_V2_ARRAY}", _FETCH)
    where = folder / (_V3 if is_v3 else _V2_ARRAY)
    return (parse_v3 if is_v3 else parse_v2)(where, _read(where))


def _read(path: Path) -> dict[str, Any]:
    fields = read_json(path, _FETCH, max_bytes=_MAX_BYTES)
    if not isinstance(fields, dict):
        refuse(path, f"contains {shown(fields)} instead of an object", _FETCH)
    return fields
