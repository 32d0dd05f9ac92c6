"""Writes small OME-Zarr images with plain Zarr, as other programs do."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import zarr

SCALE = {"x": 1.5, "y": 2.0, "z": 3.0}
TRANSLATION = {"x": -20.0, "y": 10.0, "z": 30.0}
RAS = {"x": "left-to-right", "y": "posterior-to-anterior", "z": "inferior-to-superior"}
LPS = {"x": "right-to-left", "y": "anterior-to-posterior", "z": "inferior-to-superior"}
KINDS = {"t": "time", "c": "channel", "x": "space", "y": "space", "z": "space"}


def axis_entries(order, unit="millimeter", directions=RAS):
    """Returns the objects of axes, for example of "czyx"."""
    entries = []
    for name in order:
        entry = {"name": name, "type": KINDS[name]}
        if name in "xyz" and unit is not None:
            entry["unit"] = unit
        if name in "xyz" and directions is not None:
            entry["orientation"] = {"type": "anatomical", "value": directions[name]}
        entries.append(entry)
    return entries


def write_image(
    path: Path,
    numbers: np.ndarray,
    order: str = "zyx",
    version: str = "0.5",
    unit: str | None = "millimeter",
    directions: dict | None = RAS,
    chunk: int = 4,
    scale: tuple[float, float, float] = tuple(SCALE.values()),
    translation: tuple[float, float, float] = tuple(TRANSLATION.values()),
    **options,
) -> Path:
    """Writes an OME-Zarr image.

    Args:
      path: the folder.
      numbers: `[x, y, z]`, or `[x, y, z, c]` if `order` has a channel.
      order: the axes on disk; further axes have size 1.
      version: "0.4" or "0.5".
      unit: the unit of the axes in space; None to leave it out.
      directions: the anatomical orientation of x, y and z; None to leave it out.
      chunk: voxels of a chunk along every axis.
      scale: voxel size along x, y, z in the unit.
      translation: position of the first voxel along the directions of x, y, z in the unit.
      **options: attributes of the image's group, in addition.
    """
    extra = [name for name in order if name not in "xyzc"]
    names = ["x", "y", "z", *("c" if "c" in order else ""), *extra]
    array = numbers.reshape(numbers.shape + (1,) * len(extra)).transpose([names.index(name) for name in order])
    sizes, position = (dict(zip("xyz", values, strict=True)) for values in (scale, translation))
    steps = [
        {"type": "scale", "scale": [sizes.get(name, 1.0) for name in order]},
        {"type": "translation", "translation": [position.get(name, 0.0) for name in order]},
    ]
    multiscale = {
        "axes": axis_entries(order, unit, directions),
        "datasets": [{"path": "full", "coordinateTransformations": steps}],
    }
    is_new = version == "0.5"
    ome = {"multiscales": [multiscale if is_new else {**multiscale, "version": version}]}
    attributes = {"ome": {"version": version, **ome}} if is_new else ome
    group = zarr.create_group(path, zarr_format=3 if is_new else 2, attributes=attributes | options)
    stored = group.create_array(
        "full", shape=array.shape, chunks=[min(chunk, n) for n in array.shape], dtype=array.dtype
    )
    stored[...] = array
    return path


class Payload:
    """Creates a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self._folder),)


def plant_code(path: Path, folder: Path) -> Path:
    """Makes an image of version 0.4 one whose chunks create a folder when the codec pickle decodes them."""
    edit_json(path / "full" / ".zarray", compressor={"id": "pickle"})
    fill_chunks(path, pickle.dumps(Payload(folder)))
    return path


def fill_chunks(path: Path, data: bytes) -> None:
    """Replaces the contents of all chunks of an image."""
    for file in (path / "full").rglob("*"):
        if file.is_file() and not file.name.startswith(".") and file.name != "zarr.json":
            file.write_bytes(data)


def edit_json(file: Path, **changes) -> None:
    """Changes entries of an object in a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_attributes(path: Path, change) -> None:
    """Changes the attributes of a group with a function."""
    group = zarr.open_group(path, mode="r+")
    attributes = group.attrs.asdict()
    change(attributes)
    group.attrs.put(attributes)
