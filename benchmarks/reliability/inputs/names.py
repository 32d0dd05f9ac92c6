"""Case and file names: other endings, other encodings, long names, quotes, and pairs that look alike."""

import json
import os
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

from benchmarks.reliability.files import nifti, photos
from benchmarks.reliability.good import write_described
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import BadInput, Outcome, Refused, Right
from benchmarks.reliability.inputs.lines import CONVERT, EVALUATE, PLAN, PREDICT, on

_NFC, _NFD = (unicodedata.normalize(form, "Müller") for form in ("NFC", "NFD"))
_LATIN = os.fsdecode("Müller".encode("latin-1"))
_LONG = "a" * 240


def _predicted(here: Path, text: str) -> str:
    count = len([path for path in (here / "out").rglob("*") if path.name.endswith(".nii.gz")])
    return "" if count == 2 else f"{count} segmentations instead of 2"


def _scored(here: Path, text: str) -> str:
    count = len(json.loads((here / "out/metrics.json").read_text())["cases"])
    return "" if count == 2 else f"{count} scored cases instead of 2"


def _described(rename: Callable[[str], str], labels: Callable[[str], str] | None = None):
    """Returns a function that writes two nnU-Net cases with other case and label names."""

    def make(good: Path, here: Path) -> None:
        write_described(here / "nnunet")
        for folder, change in (("imagesTr", rename), ("labelsTr", labels or rename)):
            for path in sorted((here / "nnunet" / folder).iterdir()):
                path.rename(path.with_name(change(path.name)))

    return make


def _cases(change: Callable[[Path], object]):
    def make(good: Path, here: Path) -> None:
        shutil.copytree(good / "cases", here / "cases")
        change(here / "cases")

    return make


def _upper(folder: Path) -> None:
    (folder / "volume-0.nii.gz").rename(folder / "volume-0.NII.GZ")


def _case_of_mask(folder: Path) -> None:
    (folder / "segmentation-0.nii.gz").rename(folder / "segmentation-0.Nii.gz")


def _both_endings(folder: Path) -> None:
    (folder / "volume-0.nii").write_bytes(nifti.read(folder / "volume-0.nii.gz"))


def _same_key(folder: Path) -> None:
    (folder / "more").mkdir()
    shutil.copy(folder / "volume-0.nii.gz", folder / "more/volume-0.nii.gz")


def _zero_padded(folder: Path) -> None:
    shutil.copy(folder / "volume-0.nii.gz", folder / "volume-00.nii.gz")


def _mac_files(folder: Path) -> None:
    (folder / "._volume-0.nii.gz").write_bytes(b"\x00\x05\x16\x07" + bytes(100))
    (folder / ".DS_Store").write_bytes(bytes(10))
    (folder / "Thumbs.db").write_bytes(bytes(10))


def _in_a_folder(name: str) -> Callable[[Path, Path], None]:
    def make(good: Path, here: Path) -> None:
        shutil.copytree(good / "cases", here / name / "cases")

    return make


def _word(good: Path, here: Path) -> None:
    """Decathlon cases with names that look like nnU-Net channels."""
    for number in range(2):
        values, labels = nifti.abdomen(number)
        nifti.write(here / f"nnunet/imagesTr/word_{number:04}.nii.gz", values)
        nifti.write(here / f"nnunet/labelsTr/word_{number:04}.nii.gz", labels)
    pairs = [
        {"image": f"./imagesTr/word_{number:04}.nii.gz", "label": f"./labelsTr/word_{number:04}.nii.gz"}
        for number in range(2)
    ]
    fields = {"modality": {"0": "CT"}, "labels": {"0": "background", "1": "spleen", "2": "cyst"}, "training": pairs}
    (here / "nnunet/dataset.json").write_text(json.dumps(fields | {"numTraining": 2}))


_TWO = Right(checks.num_cases(2))
_RENAMED: dict[str, Callable[[str], str]] = {
    "spaces": lambda name: name.replace("a", "my case ", 1),
    "a newline": lambda name: name.replace("a", "a\nb", 1),
    "brackets": lambda name: name.replace("a", "a[1]", 1),
    "a star": lambda name: name.replace("a", "a*", 1),
    "a backslash": lambda name: name.replace("a", "a\\b", 1),
    "quotes": lambda name: name.replace("a", "a'\"", 1),
    "a leading dash": lambda name: name.replace("a", "-a", 1),
    "a percent sign and braces": lambda name: name.replace("a", "a%s{0}", 1),
    "composed letters (NFC)": lambda name: name.replace("a", _NFC, 1),
    "decomposed letters (NFD)": lambda name: name.replace("a", _NFD, 1),
    "letters that are not UTF-8": lambda name: name.replace("a", _LATIN, 1),
    "emoji": lambda name: name.replace("a", "🫀", 1),
    "a name of 240 bytes": lambda name: name.replace("a", "a" * (240 - len(name)), 1),
    "a dot at the beginning of a number": lambda name: name.replace("a", "a.1.", 1),
    "HTML": lambda name: name.replace("a", "<script>", 1),
}
_NAMED_OR_RIGHT = (Refused("imagesTr"), Refused("labelsTr"), Refused("nnunet"))


def _lines() -> dict[str, tuple[str, Outcome]]:
    return {
        "convert": (on(CONVERT, "nnunet"), _TWO),
        "evaluate": (on(EVALUATE, "nnunet", "described_run"), Right(_scored)),
        "predict": (on(PREDICT, "nnunet/imagesTr", "described_run"), Right(_predicted)),
        "plan": (on(PLAN, "nnunet"), Right(checks.has_files("plan.gin"))),
    }


INPUTS = [
    BadInput("names", f"cases with {name}", line, _described(rename), (right, *_NAMED_OR_RIGHT))
    for name, rename in _RENAMED.items()
    for line, right in _lines().values()
]
INPUTS += [
    BadInput(
        "names",
        "composed letters of images, decomposed of labels",
        line,
        _described(lambda name: name.replace("a", _NFC, 1), lambda name: name.replace("a", _NFD, 1)),
        (right,),
    )
    for line, right in (_lines()["convert"], _lines()["evaluate"], _lines()["plan"])
]
INPUTS += [
    BadInput("names", name, line, _cases(change), outcomes)
    for name, change, outcomes in (
        ("the ending .NII.GZ", _upper, (_TWO, Refused("volume-0.NII.GZ"))),
        ("a mask with the ending .Nii.gz", _case_of_mask, (_TWO, Refused("segmentation-0.Nii.gz"))),
        ("the same volume as .nii and .nii.gz", _both_endings, (Refused("volume-0.nii"),)),
        ("the same case in two folders", _same_key, (Refused("more/volume-0.nii.gz"),)),
        ("volume-0 and volume-00", _zero_padded, (Refused("volume-00.nii.gz"),)),
        ("files of macOS and Windows", _mac_files, (_TWO,)),
    )
    for line in (on(CONVERT, "cases"),)
]
INPUTS += [
    BadInput(
        "names", f"a folder with {name}", line, _in_a_folder(text), (right, Refused("UTF-8")), values={"name": text}
    )
    for name, text in (
        ("spaces", "my data"),
        ("brackets", "data[1]"),
        ("a star", "data*"),
        ("a backslash", "data\\1"),
        ("letters that are not UTF-8", _LATIN),
        ("quotes", "data'\""),
        ("a newline", "data\n1"),
    )
    for line, right in (
        (on(CONVERT, "{name}/cases"), _TWO),
        (
            on(PREDICT, "{name}/cases/volume-0.nii.gz").replace("{here}/out", "{here}/{name}/out.nii.gz"),
            Right(),
        ),
    )
]
INPUTS += [
    BadInput("names", "Decathlon cases word_0000, word_0001", line, _word, (right,))
    for line, right in (
        (on(CONVERT, "nnunet"), Right(checks.keys("word_0000", "word_0001"))),
        (on(PLAN, "nnunet"), Right(checks.has_files("plan.gin"))),
    )
]


def _photo_names(text: str) -> Callable[[Path, Path], None]:
    def make(good: Path, here: Path) -> None:
        photos.write_photos(here / "photos")
        for folder in ("images", "labels"):
            for path in sorted((here / "photos" / folder).iterdir()):
                path.rename(path.with_name(path.name.replace("p", text, 1).replace(f"{text[-1:]}ng", "png")))
        for name in ("train", "val"):
            path = here / f"photos/splits/{name}.txt"
            path.write_text(path.read_text(errors="surrogateescape").replace("p", text), errors="surrogateescape")

    return make


INPUTS += [
    BadInput(
        "names",
        f"photos with {name}",
        on(EVALUATE, "photos", "photo_run"),
        _photo_names(text),
        (Right(checks.has_files("out/metrics.json")), Refused("photos")),
    )
    for name, text in (("spaces", "my p"), ("brackets", "p[1]"), ("decomposed letters (NFD)", _NFD), ("HTML", "<b>"))
]
INPUTS += [
    BadInput(
        "names",
        f"{name} for results",
        on(PREDICT, "../good/cases/volume-0.nii.gz").replace("{here}/out", "{name}"),
        lambda good, here: None,
        (outcome, Refused(text[-5:])),
        values={"name": text},
    )
    for name, text, outcome in (
        (
            "the ending .NII.GZ",
            "out.NII.GZ",
            Right(checks.prediction(nifti.SHAPE, "out.NII.GZ")),
        ),
        ("the ending .nrrd", "out.nrrd", Right(checks.has_files("out.nrrd"))),
        ("the ending .mgz", "out.mgz", Right(checks.has_files("out.mgz"))),
        ("no ending", "out", Refused("out")),
        ("a name of 300 bytes", "a" * 300 + ".nii.gz", Refused("aaa")),
        ("a folder that is a file", "/dev/null/out.nii.gz", Refused("/dev/null")),
        ("an existing folder", ".", Right(checks.has_files("segmentation-0.nii.gz"))),
    )
]
