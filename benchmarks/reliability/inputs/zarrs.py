"""OME-Zarr images with faulty metadata and chunks, and with content that attacks its reader."""

import json
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.reliability.files import zarr_images
from benchmarks.reliability.files.nifti import SPACING
from benchmarks.reliability.files.zarr_images import array, chunk, image, scale, text, without
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import PAYLOAD, REFUSED, BadInput, Outcome, Right, Warned, damaged
from benchmarks.reliability.inputs.lines import CONVERT, EVALUATE, PLAN, PREDICT, on

_IMAGE = "zarr/volume-0.ome.zarr"
_LINES = {
    "convert": on(CONVERT, "zarr"),
    "predict": on(PREDICT, _IMAGE) + ".nii.gz",
    "evaluate": on(EVALUATE, "zarr"),
    "plan": on(PLAN, "zarr"),
}
_NAMED = Warned(r"volume-0\.ome\.zarr")
_SAME = Right(checks.same_records())


class _Payload:
    """Runs a command while it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, (f"touch '{self._file}'",)


def _pickle(codec: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        array(compressor={"id": codec}, dtype="|O")(folder)
        zarr_images.store_chunk(folder, (0, 0, 0), pickle.dumps(_Payload(folder.parent.parent / PAYLOAD)))

    return edit


def _pickle_filter(folder: Path) -> None:
    _pickle("pickle")(folder)
    array(compressor=None, filters=[{"id": "pickle"}], dtype="|O", fill_value=0)(folder)


def _huge(folder: Path) -> None:
    """Absent chunks: only one of 2^51 is on disk."""
    array(shape=[2**17] * 3, chunks=[1, 1, 1], fill_value=-1000)(folder)


def _sparse(folder: Path) -> None:
    """262,144 absent chunks."""
    array(shape=[64] * 3, chunks=[1, 1, 1], fill_value=-1000)(folder)
    scale(*(size / 8 for size in SPACING[::-1]))(folder)


def _bomb(folder: Path) -> None:
    """A chunk of 4 MB that unpacks to 4 GiB."""
    part, times = 2**24, 256
    packer = zlib.compressobj(9)
    stream = packer.compress(bytes(part)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = ((part * times % 65521) << 16 | 1).to_bytes(4, "big")
    data = stream[:2] + stream[2:] * times + b"\x03\x00" + checksum  # the same block again and again
    zarr_images.store_chunk(folder, (0, 0, 0), data)


def _missing_chunk(folder: Path) -> None:
    zarr_images.chunk_file(folder).unlink()


def _chunk_is(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = zarr_images.chunk_file(folder)
        path.unlink()
        make(path)

    return edit


def _fifo(path: Path) -> None:
    import os

    os.mkfifo(path)


def _set(**fields: object) -> Callable[[Path], None]:
    return image(lambda entry: entry.update(fields))


def _dataset(**fields: object) -> Callable[[Path], None]:
    return image(lambda entry: entry["datasets"][0].update(fields))


def _axes(*names: str, unit: str = "millimeter") -> list[dict[str, str]]:
    return [{"name": name, "type": "space", "unit": unit} for name in names]


def _micrometers(folder: Path) -> None:
    _set(axes=_axes(*"zyx", unit="micrometer"))(folder)
    scale(*(1000 * size for size in SPACING[::-1]))(folder)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _constant(folder: Path) -> None:
    shutil.rmtree(folder)
    zarr_images.write(folder, np.full((12, 10, 8), 40))


_STEPS = "coordinateTransformations"
_UNKNOWN_SCALE = {"type": "translation", "translation": [0.0, 0.0, 0.0]}
_FAULTS: dict[str, tuple[Callable[[Path], object], tuple[Outcome, ...]]] = {
    "no fault": (lambda folder: None, (_SAME,)),
    "micrometers": (_micrometers, (Right(checks.spacing(*SPACING)),)),
    "an unknown unit": (_set(axes=_axes(*"zyx", unit="furlong")), (_NAMED, REFUSED)),
    "a negative scale": (scale(-SPACING[2], SPACING[1], SPACING[0]), (REFUSED, Warned("(?i)negative"))),
    "a scale of 0": (scale(0.0, SPACING[1], SPACING[0]), (REFUSED,)),
    "a scale of 1e300": (scale(1e300, SPACING[1], SPACING[0]), (REFUSED,)),
    "a scale of two numbers": (scale(1.0, 1.0), (REFUSED,)),
    "a scale that is text": (_dataset(**{_STEPS: [{"type": "scale", "scale": "2 mm"}]}), (REFUSED,)),
    "no scale": (_dataset(**{_STEPS: [_UNKNOWN_SCALE]}), (REFUSED, Warned("states no size"))),
    "no transformations": (
        image(lambda entry: entry["datasets"][0].pop(_STEPS)),
        (REFUSED, Warned("states no size")),
    ),
    "an unknown transformation": (_dataset(**{_STEPS: [{"type": "rotation", "rotation": [1, 2]}]}), (REFUSED,)),
    "axes of other names": (_set(axes=_axes("u", "v", "w")), (REFUSED,)),
    "two axes": (_set(axes=_axes("y", "x")), (REFUSED,)),
    "an axis twice": (_set(axes=_axes("x", "y", "x")), (REFUSED,)),
    "no axes": (image(lambda entry: entry.pop("axes")), (REFUSED,)),
    "no data sets": (_set(datasets=[]), (REFUSED,)),
    "data sets as text": (_set(datasets="0"), (REFUSED,)),
    "a path outside the image": (_dataset(path="../../secret"), (REFUSED,)),
    "an absolute path": (_dataset(path="/etc"), (REFUSED,)),
    "a path that is a number": (_dataset(path=0), (REFUSED, _SAME)),
    "a path to nothing": (_dataset(path="7"), (REFUSED,)),
    "an unknown version": (_set(version="9.9"), (REFUSED, _NAMED)),
    "no attributes": (without(".zattrs"), (REFUSED,)),
    "no group": (without(".zgroup"), (REFUSED, _SAME)),
    "no array": (without("0/.zarray"), (REFUSED,)),
    "attributes that are not JSON": (text(".zattrs", "{"), (REFUSED,)),
    "attributes nested 100,000 deep": (text(".zattrs", "[" * 100_000 + "]" * 100_000), (REFUSED,)),
    "an array nested 100,000 deep": (text("0/.zarray", '{"a":' * 100_000 + "1" + "}" * 100_000), (REFUSED,)),
    "attributes that are a list": (text(".zattrs", "[]"), (REFUSED,)),
    "multiscales that are text": (text(".zattrs", json.dumps({"multiscales": "x"})), (REFUSED,)),
    "an array that is a list": (text("0/.zarray", "[1]"), (REFUSED,)),
    "chunks of 0": (array(chunks=[0, 8, 8]), (REFUSED,)),
    "negative chunks": (array(chunks=[-8, 8, 8]), (REFUSED,)),
    "chunks of 2^40 voxels": (array(chunks=[2**14, 2**13, 2**13]), (REFUSED,)),
    "two chunk sizes": (array(chunks=[8, 8]), (REFUSED,)),
    "a shape of 0": (array(shape=[0, 10, 12]), (REFUSED,)),
    "a negative shape": (array(shape=[-8, 10, 12]), (REFUSED,)),
    "a shape of 1.5": (array(shape=[8.5, 10, 12]), (REFUSED,)),
    "four dimensions": (array(shape=[8, 10, 12, 1], chunks=[8, 8, 8, 1]), (REFUSED,)),
    "an unknown data type": (array(dtype="<q9"), (REFUSED,)),
    "text as data": (array(dtype="<U8"), (REFUSED,)),
    "objects as data": (array(dtype="|O"), (REFUSED,)),
    "an unknown compressor": (array(compressor={"id": "nothing"}), (REFUSED,)),
    "a compressor that is a number": (array(compressor=5), (REFUSED,)),
    "a compressor that runs code (pickle)": (_pickle("pickle"), (REFUSED,)),
    "a filter that runs code (pickle)": (_pickle_filter, (REFUSED,)),
    "an array of Zarr format 7": (array(zarr_format=7), (REFUSED,)),
    "2^51 absent chunks": (_huge, (REFUSED,)),
    "262,144 absent chunks": (_sparse, (REFUSED, Right(), _NAMED)),
    "a chunk of 4 MB that unpacks to 4 GiB": (_bomb, (REFUSED,)),
    "a missing chunk": (_missing_chunk, (_NAMED, REFUSED)),
    "a truncated chunk": (chunk(lambda data: data[:-9]), (REFUSED,)),
    "an empty chunk": (chunk(lambda data: b""), (REFUSED,)),
    "a chunk of other bytes": (chunk(lambda data: b"\xff" * 100), (REFUSED,)),
    "a chunk that is too small": (chunk(lambda data: zlib.compress(bytes(10))), (REFUSED,)),
    "a chunk that is a folder": (_chunk_is(Path.mkdir), (REFUSED,)),
    "a chunk that is a FIFO": (_chunk_is(_fifo), (REFUSED,)),
    "a chunk that is a link without a target": (_chunk_is(lambda path: path.symlink_to("missing")), (REFUSED, _NAMED)),
    "an empty folder": (_empty, (REFUSED,)),
    "all voxels have the same value": (_constant, (_NAMED, REFUSED)),
}
_ON_RUNS = (
    *("a negative scale", "no scale", "chunks of 0", "a compressor that runs code (pickle)", "2^51 absent chunks"),
    *("a chunk of 4 MB that unpacks to 4 GiB", "attributes nested 100,000 deep", "a path outside the image"),
    *("a truncated chunk", "an empty folder"),
)


INPUTS = [
    BadInput("OME-Zarr", name, line, damaged("zarr", "volume-0.ome.zarr", edit), outcomes, _IMAGE)
    for command, line in _LINES.items()
    for name, (edit, outcomes) in _FAULTS.items()
    if command == "convert" or name in _ON_RUNS
]
