"""OME-Zarr images of versions 0.4 and 0.5, written as plain files, so that every fault can be stored."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.files.nifti import SPACING, abdomen

Edit = Callable[[Path], None]
_CHUNK = 8


def write(folder: Path, values: np.ndarray | None = None) -> Path:
    """Writes `[x, y, z]` numbers as an OME-Zarr 0.4 image with zlib chunks; default: the HU of the abdomen."""
    numbers = (abdomen()[0] if values is None else values).T.astype("<i2")
    axes = [{"name": name, "type": "space", "unit": "millimeter"} for name in "zyx"]
    steps = [{"type": "scale", "scale": list(SPACING[::-1])}, {"type": "translation", "translation": [30.0, 10.0, -20]}]
    dataset = {"path": "0", "coordinateTransformations": steps}
    _write(folder / ".zgroup", {"zarr_format": 2})
    _write(folder / ".zattrs", {"multiscales": [{"version": "0.4", "axes": axes, "datasets": [dataset]}]})
    array = {
        "zarr_format": 2,
        "shape": list(numbers.shape),
        "chunks": [_CHUNK] * 3,
        "dtype": "<i2",
        "compressor": {"id": "zlib", "level": 1},
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }
    _write(folder / "0/.zarray", array)
    for index in np.ndindex(*[-(-size // _CHUNK) for size in numbers.shape]):
        chunk = np.zeros([_CHUNK] * 3, "<i2")
        part = numbers[tuple(slice(_CHUNK * i, _CHUNK * (i + 1)) for i in index)]
        chunk[tuple(slice(0, size) for size in part.shape)] = part
        store_chunk(folder, index, zlib.compress(chunk.tobytes()))
    return folder


def store_chunk(folder: Path, index: tuple[int, ...], data: bytes) -> None:
    """Writes the bytes of a chunk."""
    path = chunk_file(folder, index)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def chunk_file(folder: Path, index: tuple[int, ...] = (0, 0, 0)) -> Path:
    """Returns the file of a chunk."""
    return folder.joinpath("0", *map(str, index))


def array(**fields: Any) -> Edit:
    """Changes the metadata of the array."""
    return _edit("0/.zarray", lambda content: content | fields)


def image(change: Callable[[dict], None]) -> Edit:
    """Changes the only entry of `multiscales`."""

    def edit(content: dict) -> dict:
        change(content["multiscales"][0])
        return content

    return _edit(".zattrs", edit)


def text(name: str, content: str) -> Edit:
    """Replaces a metadata file."""
    return lambda folder: (folder / name).write_text(content) and None


def without(name: str) -> Edit:
    """Deletes a file."""
    return lambda folder: (folder / name).unlink()


def chunk(change: Callable[[bytes], bytes]) -> Edit:
    """Changes the bytes of the first chunk."""
    return lambda folder: store_chunk(folder, (0, 0, 0), change(chunk_file(folder).read_bytes()))


def scale(*new: float) -> Edit:
    """Replaces the scale of the array, z before y before x."""

    def change(entry: dict) -> None:
        entry["datasets"][0]["coordinateTransformations"][0]["scale"] = list(new)

    return image(change)


def _edit(name: str, change: Callable[[dict], dict]) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / name
        _write(path, change(json.loads(path.read_text())))

    return edit


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
