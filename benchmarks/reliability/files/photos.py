"""Folders of photos with label images, and of images with objects as in COCO."""

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 16, 24
CLASSES = {"ground": [0, 0, 0], "box": [200, 60, 60], "sky": [60, 60, 200]}
Edit = Callable[[Path], None]


def write_photos(folder: Path) -> Path:
    """Writes five photos with labels and two lists."""
    for name in ("images", "labels", "splits"):
        (folder / name).mkdir(parents=True)
    for number in range(5):
        labels = np.zeros((HEIGHT, WIDTH), np.uint8)
        labels[:5], labels[8:14, 4 + number : 12 + number] = 2, 1
        colors = np.array(list(CLASSES.values()))[labels]
        pixels = np.clip(colors + np.random.default_rng(number).normal(30, 9, colors.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"images/p{number}.png")
        Image.fromarray(labels).save(folder / f"labels/p{number}.png")
    (folder / "classes.json").write_text(json.dumps({"classes": CLASSES}))
    (folder / "splits/train.txt").write_text("p0\np1\np2\n")
    (folder / "splits/val.txt").write_text("p3\np4\n")
    return folder


def write_objects(folder: Path) -> Path:
    """Writes two splits of images with boxes and polygons."""
    number = 0
    for split, count in (("train", 3), ("val", 2)):
        (folder / split).mkdir(parents=True)
        fields: dict[str, list] = {"images": [], "annotations": []}
        fields["categories"] = [{"id": 1, "name": "cup"}, {"id": 3, "name": "fork"}]
        for _ in range(count):
            number += 1
            pixels = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
            Image.fromarray(pixels).save(folder / split / f"o{number}.png")
            entry = {"id": number, "file_name": f"o{number}.png", "height": HEIGHT, "width": WIDTH}
            x, y, w, h = 2 + number, 3, 10, 8
            box = {"id": number, "image_id": number, "category_id": 1 + 2 * (number % 2), "bbox": [x, y, w, h]}
            corners = [x, y, x + w, y, x + w, y + h, x, y + h]
            fields["images"].append(entry)
            fields["annotations"].append(box | {"segmentation": [corners], "area": w * h, "iscrowd": 0})
        (folder / "annotations").mkdir(exist_ok=True)
        annotations_of(folder, split).write_text(json.dumps(fields))
    return folder


def annotations_of(folder: Path, split: str = "train") -> Path:
    """Returns the path of a split's annotations."""
    return folder / f"annotations/instances_{split}.json"


def coco(change: Callable[[dict], Any], split: str = "train") -> Edit:
    """Changes the annotations of a split; the result of `change` replaces them unless it is None."""

    def edit(folder: Path) -> None:
        path = annotations_of(folder, split)
        fields = json.loads(path.read_text())
        result = change(fields)
        path.write_text(json.dumps(fields if result is None else result))

    return edit


def first(table: str, split: str = "train", **fields: Any) -> Edit:
    """Changes fields in the first entry of an annotation table; None removes a field."""

    def change(content: dict) -> None:
        entry = content[table][0]
        for name, value in fields.items():
            if value is None:
                del entry[name]
            else:
                entry[name] = value

    return coco(change, split)


def huge_png(path: Path, width: int = 400_000, height: int = 400_000) -> None:
    """Writes a PNG whose header declares a huge size, with data for one row."""

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + part(b"IDAT", zlib.compress(bytes(100))) + part(b"IEND", b""))


def image(change: Callable[[Image.Image], Image.Image], **options: Any) -> Edit:
    """Changes an image file with Pillow."""

    def edit(path: Path) -> None:
        with Image.open(path) as old:
            new = change(old.copy())
        new.save(path, **options)

    return edit
