"""NIfTI files with damaged headers, bytes or locations, as image, mask, reference and prediction."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np

from benchmarks.reliability.files import nifti
from benchmarks.reliability.files.nifti import affine, dims, header, pixdim, stored_bytes, uncompressed
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import REFUSED, BadInput, Outcome, Refused, Right, Warned, damaged
from benchmarks.reliability.inputs.lines import CONVERT, EVALUATE, PLAN, PREDICT, SCORE, SCORE_PREDICTION, on

IMAGE, MASK = "volume-0.nii.gz", "segmentation-0.nii.gz"
_ON_IMAGES = {
    "convert": on(CONVERT, "cases"),
    "predict": on(PREDICT, f"cases/{IMAGE}") + ".nii.gz",
    "evaluate": on(EVALUATE, "cases"),
    "plan": on(PLAN, "cases"),
}
_ON_MASKS = {"convert": on(CONVERT, "cases"), "evaluate": on(EVALUATE, "cases")}


def _shear(matrix: np.ndarray) -> np.ndarray:
    matrix[1, 2] += 1.0
    return matrix


def _stretch(matrix: np.ndarray) -> np.ndarray:
    matrix[:3, :3] *= 2
    return matrix


def _move(matrix: np.ndarray) -> np.ndarray:
    matrix[:3, 3] += 50
    return matrix


def _collapse(matrix: np.ndarray) -> np.ndarray:
    matrix[:3, 0] = 0
    return matrix


def _nan(matrix: np.ndarray) -> np.ndarray:
    matrix[0, 0] = np.nan
    return matrix


def _infinite(matrix: np.ndarray) -> np.ndarray:
    matrix[0, 3] = np.inf
    return matrix


def _replace(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        path.unlink()
        make(path)

    return edit


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


# Faults that every command must refuse.
_UNREADABLE = {
    "vox_offset is infinite": header(vox_offset=np.inf),
    "vox_offset is NaN": header(vox_offset=np.nan),
    "vox_offset lies behind the end of the file": header(vox_offset=1e6),
    "vox_offset is negative": header(vox_offset=-352),
    "a dimension of 0": dims(d1=0),
    "a negative dimension": dims(d2=-5),
    "dimensions of 32767 voxels each": dims(d1=32767, d2=32767, d3=32767),
    "dim[0] is 9": dims(d0=9),
    "dim[0] is 0": dims(d0=0),
    "one dimension": dims(d0=1),
    "wrong magic": header(magic=b"xyz"),
    "an unknown data type": header(datatype=9999),
    "complex numbers": header(datatype=32, bitpix=64),
    "an affine with a NaN": affine(_nan, qform=False),
    "an affine with an infinite place": affine(_infinite, qform=False),
    "an affine without an x axis": affine(_collapse, qform=False),
    "a pixdim of NaN": pixdim(1, np.nan),
    "an infinite pixdim": pixdim(3, np.inf),
    "truncated header": uncompressed(lambda data: data[:200]),
    "truncated voxels": uncompressed(lambda data: data[:-300]),
    "truncated gzip stream": stored_bytes(lambda data: data[: len(data) // 2]),
    "changed bytes in the gzip stream": stored_bytes(
        lambda data: data[: len(data) // 2] + b"\xff" * 8 + data[len(data) // 2 + 8 :]
    ),
    "not a gzip stream": stored_bytes(lambda data: b"not compressed"),
    "an HTML page of a failed download": stored_bytes(lambda data: b"<!DOCTYPE html><html>404</html>"),
    "an empty file": stored_bytes(lambda data: b""),
    "a gzip stream of nothing": stored_bytes(lambda data: gzip.compress(b"")),
    "a FIFO": _replace(os.mkfifo),
    "a link without a target": _replace(lambda path: path.symlink_to("missing")),
    "a link to itself": _replace(_loop),
    "an empty folder with the name of a file": _replace(Path.mkdir),
}


# A folder listing skips anything that is not a file, and then names the case's other file.
_UNLISTED = Refused("-0.nii.gz")


def _table(
    edits: dict[str, Callable[[Path], object]], lines: dict[str, str], file: str, *outcomes: Outcome, what: str = ""
) -> list[BadInput]:
    return [
        BadInput("headers", f"NIfTI {what}, {name}", line, damaged("cases", file, edit), outcomes, f"cases/{file}")
        for name, edit in edits.items()
        for line in lines.values()
    ]


def _only(lines: dict[str, str], *names: str) -> dict[str, str]:
    return {name: lines[name] for name in names}


def _on_scores(edits: dict[str, Callable[[Path], object]], *outcomes: Outcome) -> list[BadInput]:
    """References and predictions that `score` reads."""
    rows = []
    for what, folder, line in (
        ("reference", "cases", on(SCORE, "cases")),
        ("prediction", "predictions", on(SCORE_PREDICTION, "predictions")),
    ):
        for name, edit in edits.items():
            make = damaged(folder, MASK, edit)
            rows.append(BadInput("headers", f"NIfTI {what}, {name}", line, make, outcomes, f"{folder}/{MASK}"))
    return rows


def _in_unit(code: int, per_mm: float) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        image = nibabel.load(path)
        matrix = image.affine.copy()
        matrix[:3] *= per_mm
        values = np.asarray(image.dataobj)
        nifti.write(path, values, matrix, xyzt_units=code)

    return edit


_UNITS = {"in micrometers": _in_unit(3, 1000.0), "in meters": _in_unit(1, 0.001)}
_FORMS = r"(?i)sform.*qform|qform.*sform"
_SHEAR = r"(?i)shear|perpendicular|orthogonal"


def _gzip_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(1000))


def _many_zeros(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(85_000_000))


def _other_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"signed by the archive" * 10)


def _two_streams(path: Path) -> None:
    data = nifti.read(path)
    path.write_bytes(gzip.compress(data[:500]) + gzip.compress(data[500:]))


def _vectors(path: Path) -> None:
    image = nibabel.load(path)
    values = np.asarray(image.dataobj)[:, :, :, None, None]
    nifti.write(path, values, image.affine, intent_code=1007)


def _both(edit: Callable[[Path], object]) -> Callable[[Path], object]:
    """Applies an edit to the image and the mask."""

    def change(path: Path) -> None:
        edit(path)
        edit(path.with_name(path.name.replace("volume", "segmentation")))

    return change


def _uncompressed_as_gz(path: Path) -> None:
    path.write_bytes(gzip.decompress(path.read_bytes()))


def _to_nifti2(path: Path) -> None:
    image = nibabel.load(path)
    nibabel.save(nibabel.Nifti2Image(np.asarray(image.dataobj), image.affine), path)


def _big_endian(path: Path) -> None:
    image = nibabel.load(path)
    block = image.header.as_byteswapped(">")
    nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine, block), path)


def _write_twice(good: Path, here: Path) -> None:
    shutil.copytree(good / "cases", here / "cases")
    shutil.copy(here / "cases" / IMAGE, here / "cases/volume-0.NII.GZ")


INPUTS = (
    _table(_UNREADABLE, _only(_ON_IMAGES, "convert", "predict"), IMAGE, REFUSED, _UNLISTED, what="image")
    + _table(
        {name: _UNREADABLE[name] for name in ("a FIFO", "an empty file", "vox_offset is infinite")},
        _only(_ON_IMAGES, "evaluate", "plan"),
        IMAGE,
        REFUSED,
        _UNLISTED,
        what="image",
    )
    + _table(_UNREADABLE, _only(_ON_MASKS, "convert"), MASK, REFUSED, _UNLISTED, what="mask")
    + _on_scores(_UNREADABLE, REFUSED, _UNLISTED)
    + _table(
        {name: _both(edit) for name, edit in _UNITS.items()},
        _only(_ON_IMAGES, "convert"),
        IMAGE,
        Right(checks.spacing(*nifti.SPACING)),
        what="image",
    )
    + _table(_UNITS, _only(_ON_IMAGES, "predict"), IMAGE, Right(checks.prediction(nifti.SHAPE)), what="image")
    + _on_scores(_UNITS, Right(checks.same_scores), REFUSED)
    + _table(
        {"a sheared sform": _both(affine(_shear, qform=False))},
        _ON_IMAGES,
        IMAGE,
        Refused(because=_SHEAR),
        Warned(_SHEAR),
        what="image",
    )
    + _on_scores({"a sheared sform": affine(_shear, qform=False)}, REFUSED, Warned(_SHEAR))
    + _table(
        {
            "sform and qform of other spacings": _both(affine(_stretch, sform=False)),
            "sform and qform of other places": _both(affine(_move, sform=False)),
        },
        _ON_IMAGES,
        IMAGE,
        Warned(_FORMS),
        Refused(because=_FORMS),
        what="image",
    )
    + _table(
        {
            "zeros after the gzip stream": _gzip_tail,
            "text after the gzip stream": _other_tail,
            "two gzip streams": _two_streams,
            "uncompressed, with the ending .nii.gz": _uncompressed_as_gz,
            "NIfTI-2": _to_nifti2,
            "big endian": _big_endian,
            "the layout of ITK's vectors": _vectors,
        },
        _only(_ON_IMAGES, "convert"),
        IMAGE,
        Right(checks.same_records()),
        what="image",
    )
    + _table(
        {"85 MB of zeros after the gzip stream": _many_zeros},
        _only(_ON_IMAGES, "convert", "predict"),
        IMAGE,
        Right(),
        REFUSED,
        what="image",
    )
    + [
        BadInput(
            "headers",
            "the same volume as .nii.gz and .NII.GZ",
            line,
            _write_twice,
            (Refused("volume-0"),),
        )
        for line in (_ON_IMAGES["convert"], on(EVALUATE, "cases"), on(PLAN, "cases"))
    ]
)
