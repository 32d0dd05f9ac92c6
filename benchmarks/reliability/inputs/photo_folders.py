"""Faulty photos, label images, lists and classes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.reliability.files.photos import huge_png, image
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import REFUSED, BadInput, Outcome, Refused, Right, Warned, damaged
from benchmarks.reliability.inputs.lines import EVALUATE, PREDICT, on

Edit = Callable[[Path], object]
_EVALUATE = on(EVALUATE, "photos", "photo_run") + " --split val"
_TRAIN = "train --data_dir {here}/photos --model_dir {here}/run --gin_file {good}/photos.gin"
_PREDICT = on(PREDICT, "photos/images", "photo_run")
_WRITTEN = Right(checks.has_files("out/p3.png"))


def _bytes(change: Callable[[bytes], bytes]) -> Edit:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _replaced(make: Edit) -> Edit:
    def edit(path: Path) -> None:
        path.unlink()
        make(path)

    return edit


def _fifo(path: Path) -> None:
    import os

    os.mkfifo(path)


def _animation(path: Path) -> None:
    frames = [Image.new("RGB", (24, 16), color) for color in ("red", "green")]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def _rotated(path: Path) -> None:
    with Image.open(path) as old:
        new = old.copy()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was rotated by 90 degrees
    new.save(path, exif=exif)


def _sixteen_bits(path: Path) -> None:
    Image.fromarray(np.full((16, 24), 40_000, np.uint16)).save(path)


_PHOTOS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "truncated": (_bytes(lambda data: data[:-200]), (REFUSED,)),
    "truncated in its header": (_bytes(lambda data: data[:20]), (REFUSED,)),
    "empty": (_bytes(lambda data: b""), (REFUSED,)),
    "HTML in place of a photo": (_bytes(lambda data: b"<html>404</html>"), (REFUSED,)),
    "changed bytes": (_bytes(lambda data: data[:60] + b"\xff" * 20 + data[80:]), (REFUSED,)),
    "a declared size of 400,000 x 400,000": (huge_png, (REFUSED,)),
    "a declared size of 0 x 16": (lambda path: huge_png(path, 0, 16), (REFUSED,)),
    "CMYK in a JPEG": (image(lambda old: old.convert("CMYK"), format="JPEG"), (_WRITTEN, REFUSED)),
    "16 bits": (_sixteen_bits, (REFUSED, Warned("p3.png"))),
    "a palette": (image(lambda old: old.quantize(8)), (_WRITTEN, REFUSED)),
    "an alpha channel": (image(lambda old: old.convert("RGBA")), (_WRITTEN, REFUSED)),
    "gray values": (image(lambda old: old.convert("L")), (_WRITTEN, REFUSED)),
    "one bit": (image(lambda old: old.convert("1")), (_WRITTEN, REFUSED)),
    "an animation": (_animation, (REFUSED, _WRITTEN)),
    "another format than its ending": (image(lambda old: old, format="BMP"), (_WRITTEN, REFUSED)),
    "one pixel": (image(lambda old: old.resize((1, 1))), (_WRITTEN, REFUSED)),
    "a rotation in its EXIF data": (_rotated, (_WRITTEN, REFUSED, Warned("p3.png"))),
    "a folder": (_replaced(Path.mkdir), (REFUSED, _WRITTEN, Right())),
    "a FIFO": (_replaced(_fifo), (REFUSED, Right())),
    "a link without a target": (_replaced(lambda path: path.symlink_to("missing")), (REFUSED,)),
}
_LABELS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "of another size": (image(lambda old: old.resize((20, 12))), (REFUSED,)),
    "with values 0 and 255": (
        image(lambda old: old.point(lambda value: 255 * (value > 0))),
        (REFUSED, Warned("p3|box|label")),
    ),
    "with a value that is no class": (image(lambda old: old.point(lambda value: 7 * value)), (REFUSED,)),
    "with ignored pixels only": (image(lambda old: old.point(lambda value: 255)), (REFUSED, Warned("p3|ignore"))),
    "in colors that are no class": (image(lambda old: old.convert("RGB")), (REFUSED,)),
    "in 16 bits": (_sixteen_bits, (REFUSED,)),
    "in a JPEG": (image(lambda old: old, format="JPEG"), (REFUSED, Right())),
    "truncated": (_bytes(lambda data: data[:-30]), (REFUSED,)),
    "missing": (Path.unlink, (Refused("p3"),)),
    "with an alpha channel": (image(lambda old: old.convert("LA")), (REFUSED, Right())),
    "with the declared size of 400,000 x 400,000": (huge_png, (REFUSED,)),
    "with a rotation in its EXIF data": (_rotated, (REFUSED, Right(), Warned("p3.png"))),
}
_CLASSES: dict[str, tuple[Outcome, ...]] = {
    "": (REFUSED,),
    "[]": (REFUSED,),
    "{": (REFUSED,),
    "{}": (REFUSED,),
    '{"classes": []}': (REFUSED,),
    '{"classes": ["ground"]}': (REFUSED, Refused("photo")),
    '{"classes": ["ground", "ground", "sky"]}': (REFUSED,),
    '{"classes": {"ground": 0, "box": 1, "sky": 2}}': (REFUSED,),
    '{"classes": {"ground": [0, 0, 0], "box": [0, 0, 900], "sky": [1, 1, 1]}}': (REFUSED,),
    '{"classes": {"ground": [0, 0, 0], "box": [0, 0], "sky": [1, 1, 1]}}': (REFUSED,),
    '{"classes": {"ground": [0, 0, 0], "box": [9, 9, 9], "box": [1, 1, 1]}}': (REFUSED,),
    '{"classes": ["ground", "box", "tree"]}': (REFUSED, Refused("tree")),
    '{"classes": ["ground", "sky", "box"]}': (REFUSED, Refused("box")),
    "[" * 100_000: (REFUSED,),
}
_LISTS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "an empty list": (lambda path: path.write_text(""), (REFUSED, Refused("'val'"))),
    "a list with a photo that is missing": (lambda path: path.write_text("p3\np9\n"), (Refused("p9"),)),
    "a list with a photo twice": (lambda path: path.write_text("p3\np3\n"), (Refused("p3"),)),
    "a list with ..": (lambda path: path.write_text("p3\n../../secret\n"), (Refused("secret"),)),
    "a list with an absolute path": (lambda path: path.write_text("p3\n/etc/passwd\n"), (Refused("passwd"),)),
    "a list with a byte order mark": (lambda path: path.write_bytes(b"\xef\xbb\xbfp3\np4\n"), (Right(), REFUSED)),
    "a list in UTF-16": (lambda path: path.write_bytes("p3\np4\n".encode("utf-16")), (Right(), REFUSED)),
    "a list with the ends of lines of Windows": (lambda path: path.write_bytes(b"p3\r\np4\r\n"), (Right(),)),
}
INPUTS = [
    BadInput(
        "photos",
        f"a photo: {name}",
        _PREDICT,
        damaged("photos", "images/p3.png", edit),
        outcomes,
        "photos/images/p3.png",
    )
    for name, (edit, outcomes) in _PHOTOS.items()
]
INPUTS += [
    BadInput(
        "photos",
        f"a label image {name}",
        _EVALUATE,
        damaged("photos", "labels/p3.png", edit),
        outcomes,
        "photos/labels/p3.png",
    )
    for name, (edit, outcomes) in _LABELS.items()
]
INPUTS += [
    BadInput(
        "photos",
        f"a label image {name}",
        _TRAIN,
        damaged("photos", "labels/p0.png", edit),
        outcomes,
        "photos/labels/p0.png",
    )
    for name, (edit, outcomes) in _LABELS.items()
    if name
    in ("of another size", "truncated", "with a value that is no class", "with the declared size of 400,000 x 400,000")
]
INPUTS += [
    BadInput(
        "photos",
        "every label image with values 0 and 255",
        _TRAIN,
        damaged(
            "photos", "labels", lambda folder: [_LABELS["with values 0 and 255"][0](path) for path in folder.iterdir()]
        ),
        (Refused("labels"), Warned("255 is the ignore_label")),
        "photos/labels",
    )
]
INPUTS += [
    BadInput(
        "photos",
        f"classes.json: {text[:60]}",
        _EVALUATE,
        damaged("photos", "classes.json", lambda path, text=text: path.write_text(text)),
        outcomes,
        "photos/classes.json",
    )
    for text, outcomes in _CLASSES.items()
]
INPUTS += [
    BadInput("photos", name, _EVALUATE, damaged("photos", "splits/val.txt", edit), outcomes, "photos/splits/val.txt")
    for name, (edit, outcomes) in _LISTS.items()
]
