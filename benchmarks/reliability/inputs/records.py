"""Records that were edited, truncated, moved or made by another version."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.reliability.inputs.bad_input import BadInput, Outcome, Refused, Right, Warned, damaged
from benchmarks.reliability.inputs.lines import CROSS_VALIDATE, TRAIN, on

Edit = Callable[[Path], object]
_RECORD = "case-0.ome.zarr"
_MANIFEST, _CASE = Refused("dataset.json"), Refused("case-0")
_EITHER = (_MANIFEST, _CASE, Refused("records"))


def _manifest(change: Callable[[dict[str, Any]], object]) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "dataset.json"
        fields = json.loads(path.read_text())
        change(fields)
        path.write_text(json.dumps(fields))

    return edit


def _set(**fields: Any) -> Edit:
    return _manifest(lambda content: content.update(fields))


def _case(**fields: Any) -> Edit:
    return _manifest(lambda content: content["cases"][0].update(fields))


def _text(text: str | bytes) -> Edit:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / "dataset.json").write_bytes(data)


def _file(name: str, change: Callable[[bytes], bytes]) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return edit


def _swap(folder: Path) -> None:
    (folder / _RECORD).rename(folder / "x")
    (folder / "case-1.ome.zarr").rename(folder / _RECORD)
    (folder / "x").rename(folder / "case-1.ome.zarr")


_CHUNK, _META = f"{_RECORD}/0/c/0/0/0", f"{_RECORD}/zarr.json"
_FAULTS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "no manifest": (lambda folder: (folder / "dataset.json").unlink(), _EITHER),
    "an empty manifest": (_text(""), (_MANIFEST,)),
    "a manifest that is a list": (_text("[]"), (_MANIFEST,)),
    "a manifest that is truncated": (_file("dataset.json", lambda data: data[:90]), (_MANIFEST,)),
    "a manifest nested 100,000 deep": (_text("[" * 100_000), (_MANIFEST,)),
    "a manifest in UTF-16": (_file("dataset.json", lambda data: data.decode().encode("utf-16")), (_MANIFEST,)),
    "a manifest of a later version": (_set(format=99), (_MANIFEST,)),
    "a version that is text": (_set(format="five"), (_MANIFEST,)),
    "no version": (_manifest(lambda fields: fields.pop("format")), (_MANIFEST,)),
    "no cases": (_set(cases=[]), (_MANIFEST,)),
    "cases as text": (_set(cases="all"), (_MANIFEST,)),
    "a case that is a number": (_set(cases=[1, 2]), (_MANIFEST,)),
    "a case without a key": (_manifest(lambda fields: fields["cases"][0].pop("case")), (_MANIFEST,)),
    "a case with the path of another folder": (_case(case="../../secret"), _EITHER),
    "a case twice": (_manifest(lambda fields: fields["cases"].append(fields["cases"][0])), _EITHER),
    "another resolution": (_set(resolution="x:4,y:4,z:4"), _EITHER),
    "a resolution that is text": (_set(resolution="large"), (_MANIFEST,)),
    "a resolution of 0": (_set(resolution="x:0,y:8,z:8"), (_MANIFEST,)),
    "a spacing that is text": (_case(spacing="wide"), (*_EITHER, Right())),
    "another digest": (_case(digest="0" * 32), _EITHER),
    "a missing record": (lambda folder: shutil.rmtree(folder / _RECORD), _EITHER),
    "a record of another case": (_swap, _EITHER),
    "a record that is a file": (
        lambda folder: (shutil.rmtree(folder / _RECORD), (folder / _RECORD).write_text("x")),
        _EITHER,
    ),
    "a missing chunk": (lambda folder: (folder / _CHUNK).unlink(), (_CASE,)),
    "a truncated chunk": (_file(_CHUNK, lambda data: data[:-4]), (_CASE,)),
    "an empty chunk": (_file(_CHUNK, lambda data: b""), (_CASE,)),
    "a changed chunk": (_file(_CHUNK, lambda data: data[:-1] + bytes([data[-1] ^ 1])), (_CASE,)),
    "a chunk of the labels that is missing": (
        lambda folder: (folder / f"{_RECORD}/labels/segmentation/0/c/0/0/0").unlink(),
        (_CASE,),
    ),
    "changed metadata": (_file(_META, lambda data: data.replace(b"RAS", b"LPS")), (_CASE,)),
    "empty metadata": (_file(_META, lambda data: b""), (_CASE,)),
    "missing metadata": (lambda folder: (folder / _META).unlink(), (_CASE,)),
    "files of another program": (lambda folder: (folder / "notes.txt").write_text("mine"), (Right(), Warned("notes"))),
    "a record of a conversion that was killed": (
        lambda folder: shutil.copytree(folder / _RECORD, folder / ".partial-1-case-7.ome.zarr"),
        (Right(),),
    ),
}
INPUTS = [
    BadInput("records", name, on(TRAIN, "records"), damaged("records", "", edit), outcomes)
    for name, (edit, outcomes) in _FAULTS.items()
]
INPUTS += [
    BadInput("records", name, on(CROSS_VALIDATE, "records"), damaged("records", "", _FAULTS[name][0]), _FAULTS[name][1])
    for name in ("no manifest", "a missing record", "a changed chunk", "a manifest nested 100,000 deep", "no cases")
]


def _pair(**fields: Any) -> Callable[[Path, Path], None]:
    """Copies training records, and held-out records with another description."""

    def make(good: Path, here: Path) -> None:
        for name in ("records", "eval"):
            shutil.copytree(good / "described", here / name)
        _set(**fields)(here / "eval")

    return make


_HELD_OUT = "train --data_dir {here}/records --eval_dir {here}/eval --model_dir {here}/run --gin_file unet3d_brain"
INPUTS += [
    BadInput(
        "records", f"held-out records with {name}", f"{_HELD_OUT} --num_steps 1", _pair(**fields), (Refused("eval"),)
    )
    for name, fields in (
        ("other labels", {"labels": {"background": 0, "cyst": 1, "spleen": 2}}),
        ("another channel", {"channel_names": {"0": "CT"}}),
        ("two channels", {"channel_names": {"0": "MR0", "1": "MR1"}}),
        ("another resolution", {"resolution": "x:4,y:4,z:4"}),
    )
]
