"""Writes small folders in the layout of COCO for tests."""

import json

import numpy as np
from PIL import Image


def make_annotation(number, image_id, category_id, box, segmentation=None, is_crowd=0, **changes):
    """Returns an annotation; the box is x, y, width, height, and the default segmentation is its rectangle."""
    x, y, width, height = box
    corners = [x, y, x + width, y, x + width, y + height, x, y + height]
    fields = {
        "id": number,
        "image_id": image_id,
        "category_id": category_id,
        "bbox": [*box],
        "segmentation": [corners] if segmentation is None else segmentation,
        "area": width * height,
        "iscrowd": is_crowd,
    }
    return {key: value for key, value in (fields | changes).items() if value is not None}


def make_fields(sizes, annotations, categories=((1, "cup"), (3, "fork"))):
    """Returns the fields of a file of instances; `sizes` are heights and widths of the images 11, 12, ..."""
    return {
        "images": [
            {"id": 11 + number, "file_name": f"p{number}.png", "height": height, "width": width}
            for number, (height, width) in enumerate(sizes)
        ],
        "annotations": annotations,
        "categories": [{"id": category_id, "name": name} for category_id, name in categories],
    }


def write_annotations(folder, split, fields):
    """Writes annotations/instances_SPLIT.json and returns its path."""
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    path = folder / "annotations" / f"instances_{split}.json"
    path.write_text(fields if isinstance(fields, str) else json.dumps(fields))
    return path


def write_images(folder, fields, seed=0):
    """Writes images of random pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in fields["images"]:
        rng = np.random.default_rng([seed, entry["id"]])
        pixels = rng.integers(0, 256, (entry["height"], entry["width"], 3), np.uint8)
        Image.fromarray(pixels).save(folder / entry["file_name"])


def write_folder(folder, fields, split="train"):
    """Writes the annotations and the images of a split."""
    write_annotations(folder, split, fields)
    write_images(folder / split, fields)
    return folder
