"""Faulty object annotations in COCO's format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.reliability.files.photos import annotations_of, coco, first, huge_png
from benchmarks.reliability.inputs.bad_input import BadInput, Outcome, Refused, Right, Warned, damaged
from benchmarks.reliability.inputs.lines import EVALUATE, PREDICT, on

Edit = Callable[[Path], object]
_FILE = "objects/annotations/instances_val.json"
_LINES = {
    "evaluate": on(EVALUATE, "objects", "object_run") + " --split val",
    "predict": on(PREDICT, "objects", "object_run"),
    "train": "train --data_dir {here}/objects --eval_dir {here}/objects --model_dir {here}/run"
    " --gin_file {good}/objects.gin",
}
_NAMED = Refused("instances_val.json")
_ANY = (_NAMED, Warned("instances_val|o4"), Right())


def _text(text: str | bytes) -> Edit:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: annotations_of(folder, "val").write_bytes(data)


def _drop(name: str) -> Edit:
    return coco(lambda fields: fields.pop(name) and None, "val")


def _set(table: str, **fields: Any) -> Edit:
    return first(table, "val", **fields)


def _again(table: str) -> Edit:
    return coco(lambda fields: fields[table].append(fields[table][0]), "val")


def _all_outside(folder: Path) -> None:
    """Names a user's photo next to the image folder."""
    (folder / "precious.png").write_bytes((folder / "val/o4.png").read_bytes())
    _set("images", file_name="../precious.png")(folder)


def _output_outside(folder: Path) -> None:
    """Names a user's photo that the report's pictures would overwrite."""
    (folder.parent / "out").mkdir()
    (folder.parent / "precious.png").write_bytes((folder / "val/o4.png").read_bytes())
    _set("images", file_name="../../precious.png")(folder)


_HUGE = {"size": [16, 24], "counts": [0, 10**15]}
_FAULTS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "no images": (_drop("images"), (_NAMED,)),
    "no annotations": (_drop("annotations"), (_NAMED,)),
    "no categories": (_drop("categories"), (_NAMED,)),
    "an empty file": (_text(""), (_NAMED,)),
    "not JSON": (_text("{"), (_NAMED,)),
    "a list": (_text("[]"), (_NAMED,)),
    "nested 100,000 deep": (_text("[" * 100_000 + "]" * 100_000), (_NAMED,)),
    "letters that are not UTF-8": (_text(b'{"images": "\xff"}'), (_NAMED,)),
    "images as text": (coco(lambda fields: {**fields, "images": "o4.png"}, "val"), (_NAMED,)),
    "annotations as an object": (coco(lambda fields: {**fields, "annotations": {}}, "val"), (_NAMED,)),
    "an entry that is a number": (coco(lambda fields: {**fields, "images": [4]}, "val"), (_NAMED,)),
    "no file name": (_set("images", file_name=None), (_NAMED,)),
    "a file name that is a number": (_set("images", file_name=4), (_NAMED,)),
    "an empty file name": (_set("images", file_name=""), (_NAMED, Refused("val"))),
    "a file name with ..": (_all_outside, (_NAMED, Refused("precious.png"), Right())),
    "a file name with .. out of the data set": (_output_outside, (_NAMED, Refused("precious.png"), Right())),
    "an absolute file name": (_set("images", file_name="/etc/passwd"), (_NAMED, Refused("/etc/passwd"))),
    "a file name with NUL": (_set("images", file_name="a\0b.png"), (_NAMED, Refused("val"))),
    "a file name of 300 bytes": (_set("images", file_name="a" * 300 + ".png"), (_NAMED, Refused("aaa"))),
    "an image that is missing": (_set("images", file_name="o99.png"), (_NAMED, Refused("o99.png"))),
    "an image file with a declared size of 400,000 x 400,000": (
        lambda folder: huge_png(folder / "val/o4.png"),
        (_NAMED, Refused("o4.png")),
    ),
    "no width": (_set("images", width=None), (_NAMED, Right())),
    "a width of 0": (_set("images", width=0), (_NAMED, Refused("o4.png"))),
    "a width that is text": (_set("images", width="24"), (_NAMED,)),
    "another size than the file": (_set("images", width=48, height=32), (_NAMED, Refused("o4.png"))),
    "a width of 1e12": (_set("images", width=10**12), (_NAMED, Refused("o4.png"))),
    "no image ID": (_set("images", id=None), (_NAMED,)),
    "an image ID that is text": (_set("images", id="four"), (_NAMED,)),
    "an image ID of 1e30": (_set("images", id=10**30), (_NAMED, Right())),
    "an image ID of NaN": (_set("images", id=float("nan")), (_NAMED,)),
    "an image twice": (_again("images"), (_NAMED,)),
    "an annotation twice": (_again("annotations"), (_NAMED,)),
    "a category twice": (_again("categories"), (_NAMED,)),
    "an annotation of an unknown image": (_set("annotations", image_id=999), (_NAMED,)),
    "an annotation of an unknown category": (_set("annotations", category_id=999), (_NAMED,)),
    "no category": (_set("annotations", category_id=None), (_NAMED,)),
    "no box": (_set("annotations", bbox=None), (_NAMED,)),
    "a box of three numbers": (_set("annotations", bbox=[1, 2, 3]), (_NAMED,)),
    "a box of text": (_set("annotations", bbox="1 2 3 4"), (_NAMED,)),
    "a box of NaN": (_set("annotations", bbox=[1, 2, float("nan"), 4]), (_NAMED,)),
    "a box of infinity": (_set("annotations", bbox=[1, 2, float("inf"), 4]), (_NAMED,)),
    "a box of negative width": (_set("annotations", bbox=[5, 5, -3, 4]), _ANY[:2]),
    "a box of width 0": (_set("annotations", bbox=[5, 5, 0, 4]), _ANY),
    "a box outside the image": (_set("annotations", bbox=[500, 500, 10, 10]), _ANY),
    "an area of NaN": (_set("annotations", area=float("nan")), (_NAMED,)),
    "a negative area": (_set("annotations", area=-5), _ANY),
    "an area that is text": (_set("annotations", area="big"), (_NAMED,)),
    "a polygon of one point": (_set("annotations", segmentation=[[1, 1]]), _ANY),
    "a polygon of an odd number of coordinates": (_set("annotations", segmentation=[[1, 1, 5, 5, 9, 2, 3]]), _ANY[:2]),
    "a polygon of NaN": (_set("annotations", segmentation=[[1, 1, float("nan"), 5, 9, 2]]), (_NAMED,)),
    "a polygon of text": (_set("annotations", segmentation=[["a", "b", "c", "d", "e", "f"]]), (_NAMED,)),
    "a polygon of coordinates up to 1e12": (_set("annotations", segmentation=[[0, 0, 1e12, 0, 1e12, 1e12]]), _ANY),
    "no polygon": (_set("annotations", segmentation=[]), _ANY),
    "a mask of another size": (
        _set("annotations", segmentation={"size": [9, 9], "counts": [40, 41]}, iscrowd=1),
        (_NAMED,),
    ),
    "a mask of 10^15 pixels": (_set("annotations", segmentation=_HUGE, iscrowd=1), (_NAMED,)),
    "a mask that declares 10^10 pixels": (
        _set("annotations", segmentation={"size": [10**5, 10**5], "counts": [10**10]}, iscrowd=1),
        (_NAMED,),
    ),
    "a mask of negative runs": (
        _set("annotations", segmentation={"size": [16, 24], "counts": [-5, 389]}, iscrowd=1),
        (_NAMED,),
    ),
    "a compressed mask of other letters": (
        _set("annotations", segmentation={"size": [16, 24], "counts": "~~~\u00e9~~"}, iscrowd=1),
        (_NAMED,),
    ),
    "iscrowd that is text": (_set("annotations", iscrowd="no"), (_NAMED,)),
    "a category that is a number": (_set("categories", name=7), (_NAMED,)),
    "other categories than in training": (_set("categories", name="knife"), (_NAMED, Refused("knife"))),
}
_ON_OTHERS = (
    *("no images", "nested 100,000 deep", "a file name with ..", "a file name with .. out of the data set"),
    *("an absolute file name", "an image that is missing", "a box of NaN", "a mask of 10^15 pixels"),
    "an image file with a declared size of 400,000 x 400,000",
)
INPUTS = [
    BadInput("objects", name, line, damaged("objects", "", edit), outcomes, _FILE)
    for command, line in _LINES.items()
    for name, (edit, outcomes) in _FAULTS.items()
    if command == "evaluate" or name in _ON_OTHERS
]
