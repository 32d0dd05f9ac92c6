"""Writes synthetic images of objects to a folder with COCO's structure."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.pixels.photo_files import read_photo
from mtf_imaging.data.pixels.synthetic import (
    DEFAULT_SIZE,
    HELD_OUT,
    TRAIN,
    VAL,
    check_arguments,
    check_other_files,
    difference,
    write_jpeg,
    write_once,
)
from mtf_imaging.kinds.objects.reading.outlines import outline_polygons
from mtf_imaging.kinds.objects.scenes import (
    CATEGORIES,
    CROWD,
    EMPTY,
    OBJECTS,
    Scene,
    Shape,
    make_object_scene,
)

_KINDS = {1: CROWD, 2: EMPTY}  # {number in the split modulo _PERIOD: kind}
_PERIOD = 10
_JPEG_DIFFERENCE = 12  # mean pixel difference; JPEG values depend on the library version
_MOST_SHAPES = 100  # annotation IDs leave room for this many per image


def write_objects(
    folder: str | Path, num_images: int, seed: int, size: tuple[int, int] = DEFAULT_SIZE, progress: bool = True
) -> tuple[list[str], list[str]]:
    """Writes scenes of objects as JPEG images in `train` and `val`, with `annotations/instances_SPLIT.json`.

    Every fourth image is in the split "val", and the others are in the split "train". The second image of a split, and
    every tenth one after it, has a crowd region, and the image after each of these is empty. From 12 images on, both
    splits have both. The annotation of an object covers its visible part. To resume an interrupted call, call it again
    with the same arguments. Existing files are compared and never overwritten.

    Args:
      folder: folder for the images and annotations; created if it does not exist.
      num_images: number of images.
      seed: seed of the scenes. A scene depends only on the seed, its number and `size`.
      size: (low, high) bounds of the height and of the width in pixels, without high.
      progress: whether to show a progress bar.

    Returns:
      The image keys of the splits "train" and "val".

    Raises:
      DataError: an argument is out of range; or the folder contains other images, or files with the same names and
        different contents.
    """
    check_arguments(num_images, "image", size, 32)
    folder = Path(folder)
    numbers = {
        VAL: range(HELD_OUT - 1, num_images, HELD_OUT),
        TRAIN: [number for number in range(num_images) if number % HELD_OUT != HELD_OUT - 1],
    }
    names = {f"{split}/{_key(number)}.jpg" for split in numbers for number in numbers[split]}
    check_other_files(folder, (f"{TRAIN}/*", f"{VAL}/*"), names, f"images other than {_key(0)}..{_key(num_images - 1)}")
    with tqdm(total=num_images, desc="objects", unit="image", dynamic_ncols=True, disable=not progress) as bar:
        for split, members in numbers.items():
            if not members:
                continue
            images, annotations = [], []
            for rank, number in enumerate(members):
                scene = make_object_scene(seed, number, _KINDS.get(rank % _PERIOD, OBJECTS), size)
                _write_image(folder / split / f"{_key(number)}.jpg", scene.pixels, seed)
                images.append(_image_fields(number, scene))
                annotations += [_annotation_fields(number, at, shape) for at, shape in enumerate(scene.shapes)]
                bar.update()
            # Last, so that a listed image exists.
            _write_annotations(folder / "annotations" / f"instances_{split}.json", images, annotations, seed)
    return [_key(number) for number in numbers[TRAIN]], [_key(number) for number in numbers[VAL]]


def _key(number: int) -> str:
    return f"objects_{number:04d}"


def _image_fields(number: int, scene: Scene) -> dict[str, Any]:
    height, width = scene.pixels.shape[:2]
    return {"id": number + 1, "file_name": f"{_key(number)}.jpg", "height": height, "width": width}


def _annotation_fields(number: int, at: int, shape: Shape) -> dict[str, Any]:
    rows, columns = (np.flatnonzero(shape.mask.any(axis)) for axis in (1, 0))
    x, y = int(columns[0]), int(rows[0])
    return {
        "id": number * _MOST_SHAPES + at + 1,
        "image_id": number + 1,
        "category_id": CATEGORIES[shape.category][0],
        "bbox": [x, y, int(columns[-1]) + 1 - x, int(rows[-1]) + 1 - y],
        "area": int(shape.mask.sum()),
        "iscrowd": int(shape.is_crowd),
        "segmentation": _run_lengths(shape.mask) if shape.is_crowd else outline_polygons(shape.mask),
    }


def _run_lengths(mask: np.ndarray) -> dict[str, list[int]]:
    """Returns the lengths of alternating runs of False and True, down the columns."""
    column = mask.T.ravel()
    ends = np.flatnonzero(np.diff(np.concatenate([[False], column, [not column[-1]]]).astype(np.int8)))
    return {"size": [*mask.shape], "counts": np.diff(ends, prepend=0).tolist()}


def _write_image(path: Path, pixels: np.ndarray, seed: int) -> None:
    """Writes an image, or compares it with an existing one."""
    if path.exists():
        stored = read_photo(path)
        if stored.shape != pixels.shape or abs(stored.astype(int) - pixels).mean() > _JPEG_DIFFERENCE:
            raise difference(path, seed)
        return
    write_jpeg(path, pixels)


def _write_annotations(path: Path, images: list[dict], annotations: list[dict], seed: int) -> None:
    fields = {
        "info": {"description": f"Synthetic scenes of objects, seed {seed}"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": category_id, "name": name} for category_id, name in CATEGORIES],
    }
    write_once(path, f"{json.dumps(fields)}\n".encode(), seed)
