"""Reads OME-Zarr images, without Zarr.

Zarr itself creates all codecs that the array metadata name, and some of these run code from the chunks. Consolidated
metadata, which repeat the metadata of the files, are not read.
"""

import dataclasses
import functools
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.formats.label_names import names_in_zarr
from mtf_imaging.data.formats.ome_zarr.array_layout import ArrayLayout, parse_layout, shown_value
from mtf_imaging.data.formats.ome_zarr.geometry import ZarrGeometry, zarr_geometry
from mtf_imaging.data.formats.ome_zarr.multiscale import OURS, Multiscale, parse_multiscale
from mtf_imaging.data.formats.ome_zarr.stored_array import StoredArray
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.errors import DataError
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.memory import check_room
from mtf_imaging.files.reading import Fault, damage_named

_V3, _V2_GROUP, _V2_ARRAY, _V2_ATTRIBUTES = "zarr.json", ".zgroup", ".zarray", ".zattrs"
_KIND = "OME-Zarr"
_FETCH = "fetch the image again"
_WRITE_AGAIN = "write the image again, for example with chunks of 64 x 64 x 64 voxels and the codec blosc or zstd"
_MAX_BYTES = 1 << 27
_NAME = re.compile(r"[^/\\:\0]+(/[^/\\:\0]+)*")  # no URL, and no absolute path on any system
_SHOWN = 3  # chunks in a message
_SPARSEST = 1000  # chunks of an image per stored chunk


def open_ome_zarr(path: Path) -> tuple[list[Stored], ZarrGeometry]:
    """Reads the metadata of an OME-Zarr image.

    Args:
      path: the folder of the image.

    Returns:
      The stored numbers of each channel, with the axes x, y, z, and the geometry.

    Raises:
      DataError: the folder is missing or is not an OME-Zarr image of version 0.4 or 0.5, its metadata is malformed, it
        has several points in time, its voxels are not plain numbers, its chunks have an unsupported codec, or nearly
        all chunks are missing.
    """
    with damage_named(path, _KIND, _FETCH):
        if not path.is_dir():
            fix = "check the path, or unpack the image if it is an archive"
            raise Fault("is not a folder, as an OME-Zarr image is", fix)
        attributes = _read_attributes(path)
        multiscale, names = parse_multiscale(attributes), names_in_zarr(attributes)
        array = _open_array(path, multiscale.array, multiscale)
    if multiscale.has_size and not multiscale.has_units:
        warn_once(f"{path}: its metadata does not state the unit of the axes; the scale is read as millimeters.")
    channel = multiscale.number_of("channel")
    numbers = range(1 if channel is None else array.layout.shape[channel])
    stored = [dataclasses.replace(_stored(path, array, multiscale, n), names=names) for n in numbers]
    return stored, zarr_geometry(multiscale, stored[0].shape)


def _open_array(path: Path, name: str, multiscale: Multiscale) -> StoredArray:
    """Opens and checks the array of a level.

    Args:
      path: the folder of the image.
      name: the path of the array in it.
      multiscale: the metadata of the image.
    """
    folder = _array_folder(path, name)
    array = StoredArray(folder, _read_layout(folder))
    layout, time = array.layout, multiscale.number_of("time")
    if len(multiscale.axes) != len(layout.shape) or (time is not None and layout.shape[time] > 1):
        names = ", ".join(axis.name for axis in multiscale.axes)
        what = f"its array '{name}' has the shape {layout.shape}, but its axes are {names}"
        raise Fault(what, "store one volume, without several points in time, and the names of its axes")
    height, size = multiscale.space[2], layout.codec.size
    layer = math.prod(layout.shape) // layout.shape[height] * layout.chunk[height] * layout.codec.dtype.itemsize
    check_room(f"the shape {layout.shape} and chunks of {layout.chunk}", 0, 0, at_once=2 * (layer + size))
    if not multiscale.is_label:
        _check_chunks(array)
    return array


def _stored(path: Path, array: StoredArray, multiscale: Multiscale, channel: int) -> Stored:
    """Returns a channel of a level, with the levels that are coarser."""
    x, y, z = (array.layout.shape[number] for number in multiscale.space)
    dtype = array.layout.fill_value.dtype
    coarser = tuple(functools.partial(_open_level, path, multiscale, name, channel) for name in multiscale.coarser)
    planes = functools.partial(ZarrPlanes, array, multiscale, channel)
    return Stored(path, (x, y, z), np.dtype(np.uint8) if dtype.kind == "b" else dtype, planes, coarser=coarser)


def _open_level(path: Path, multiscale: Multiscale, name: str, channel: int) -> Stored:
    """Opens a channel of a coarser level."""
    with damage_named(path, _KIND, _FETCH):
        return _stored(path, _open_array(path, name, multiscale), multiscale, channel)


class ZarrPlanes(Planes):
    """Reads planes along z of one channel; keeps the last layer of chunks, so consecutive slabs read it only once.

    Args:
      array: the array.
      multiscale: the metadata of the image.
      channel: index of the channel.
    """

    def __init__(self, array: StoredArray, multiscale: Multiscale, channel: int) -> None:
        self._array, self._multiscale, self._channel = array, multiscale, channel
        self._thickness = array.layout.chunk[multiscale.space[2]]
        self._layer: tuple[int, np.ndarray] | None = None

    def read(self, planes: slice) -> np.ndarray:
        parts = []
        for layer in range(planes.start // self._thickness, -(-planes.stop // self._thickness)):
            first = layer * self._thickness
            parts.append(self._read(layer)[..., max(planes.start - first, 0) : planes.stop - first])
        return np.concatenate(parts, axis=2)

    def close(self) -> None:
        self._layer = None

    def _read(self, layer: int) -> np.ndarray:
        """Returns the stored numbers `[x, y, z]` of a layer of chunks."""
        if self._layer is None or self._layer[0] != layer:
            self._layer = None  # frees the layer before the next one is allocated
            shape, found = self._array.layout.shape, self._multiscale
            space, channel = found.space, found.number_of("channel")
            index = [slice(0, size) for size in shape]  # time has size 1
            index[space[2]] = slice(layer * self._thickness, min((layer + 1) * self._thickness, shape[space[2]]))
            if channel is not None:
                index[channel] = slice(self._channel, self._channel + 1)
            others = [number for number in range(len(index)) if number not in space]
            numbers = self._array.read(index).transpose([*space, *others])
            numbers = numbers.reshape(numbers.shape[:3])
            self._layer = layer, numbers.astype(np.uint8) if numbers.dtype.kind == "b" else numbers
        return self._layer[1]


def _read_attributes(path: Path) -> Mapping[str, Any]:
    """Returns the attributes of a group in Zarr format 2 or 3."""
    is_v3 = os.path.lexists(path / _V3)
    if not is_v3 and not os.path.lexists(path / _V2_GROUP):
        what = f"cannot be read as a Zarr group, because it has no {_V3} or {_V2_GROUP}"
        raise Fault(what, "give the folder of an OME-Zarr image")
    fields = _read(path / (_V3 if is_v3 else _V2_GROUP))
    if fields.get("zarr_format") != (3 if is_v3 else 2) or fields.get("node_type", "group") != "group":
        raise Fault("cannot be read as a Zarr group, because its metadata is that of another object")
    if is_v3:
        return fields.get("attributes", {})
    return _read(path / _V2_ATTRIBUTES) if os.path.lexists(path / _V2_ATTRIBUTES) else {}


def _array_folder(path: Path, name: str) -> Path:
    """Returns the folder of an image's array.

    Args:
      path: the folder of the image.
      name: the path of the array in it, as its metadata state it.

    Raises:
      Fault: the path is outside the image, or there is no array.
    """
    if not _NAME.fullmatch(name) or {".", ".."} & {*name.split("/")}:
        raise Fault(f"its metadata names the array {shown_value(name)}, which is not a path in this folder")
    try:
        root, folder = (os.path.realpath(each, strict=True) for each in (path, path / name))
        is_array = os.path.isdir(folder)
    except OSError as error:
        raise Fault(f"its array {shown_value(name)} cannot be opened ({error.strerror})") from error
    if os.path.commonpath([root, folder]) != root:
        what = f"its array {shown_value(name)} is a link to {folder}, outside of the image"
        raise Fault(what, "copy the array into it")
    if not is_array:
        raise Fault(f"its array {shown_value(name)} cannot be opened (it is not a folder)")
    return path / name


def _read_layout(folder: Path) -> ArrayLayout:
    """Returns the layout of an array in Zarr format 2 or 3.

    Raises:
      DataError: the folder is not an array, its metadata are damaged, or they name an unsupported codec.
    """
    where = next((folder / name for name in (_V3, _V2_ARRAY) if os.path.lexists(folder / name)), folder / _V3)
    with damage_named(where, "the metadata of a Zarr array", _WRITE_AGAIN):
        return parse_layout(_read(where))


def _read(path: Path) -> dict[str, Any]:
    return read_object(path, _FETCH, max_bytes=_MAX_BYTES)


def _check_chunks(array: StoredArray) -> None:
    """Checks that the chunks of an image exist, unlike those of masks, which may lack background chunks.

    Raises:
      DataError: nearly all chunks are missing, or the image is a record, which stores every chunk.
    """
    if not array.num_missing:
        return
    keys = array.missing_keys(_SHOWN)
    more = ", ..." if array.num_missing > len(keys) else ""
    what = f"{array.num_missing} of {array.num_files} chunk(s) are missing: {', '.join(keys)}{more}"
    if OURS in array.layout.attributes or array.num_files > _SPARSEST * len(array.stored):
        raise DataError(f"{array.folder}: {what}. Fix: {_FETCH}; if it is that empty, store its empty chunks, too.")
    warn_once(f"{array.folder}: {what}; their voxels are read as {array.layout.fill_value}, the fill value.")
