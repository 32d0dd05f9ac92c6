"""Writes scenes: synthetic photos of overlapping textured shapes with label images, as in PASCAL VOC.

Outline and texture determine a shape's class. Colors, sizes, positions and lighting are random, so a color does
not reveal the class.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import ndimage
from tqdm import tqdm

from mtf_imaging.data.pixels import painting
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
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import CLASSES_FILE
from mtf_imaging.kinds.photos.reading.label_images import read_label_image, write_label_image

SCENES = PhotoDescription(
    classes=("background", "disc", "square", "triangle", "ring"),
    colors=((0, 0, 0), (230, 80, 60), (70, 160, 230), (240, 200, 60), (90, 190, 110)),
)

_IMAGES, _LABELS, _LISTS = "JPEGImages", "SegmentationClass", "ImageSets/Segmentation"
_NUM_SHAPES = (3, 7)  # without the upper bound
_RADIUS = (0.14, 0.26)  # in units of the shorter side


def write_scenes(
    folder: str | Path, num_photos: int, seed: int, size: tuple[int, int] = DEFAULT_SIZE, progress: bool = True
) -> tuple[list[str], list[str]]:
    """Writes scenes as JPEG photos and palette PNG label images, with lists and `classes.json`.

    Every fourth photo is in the list "val", and the others are in the list "train". To resume an interrupted call, call
    it again with the same arguments. Existing files are compared and never overwritten.

    Args:
      folder: folder for the scenes; created if it does not exist.
      num_photos: number of scenes.
      seed: seed of the scenes. A scene depends only on the seed, its number and `size`.
      size: (low, high) bounds of the height and of the width in pixels, without high.
      progress: whether to show a progress bar.

    Returns:
      The keys of the lists "train" and "val".

    Raises:
      DataError: an argument is out of range; or the folder contains other photos, or files with the same names and
        different contents.
    """
    check_arguments(num_photos, "photo", size, 16)
    folder = Path(folder)
    keys = [f"scene_{number:04d}" for number in range(num_photos)]
    held_out = keys[HELD_OUT - 1 :: HELD_OUT]
    lists = {TRAIN: [key for key in keys if key not in {*held_out}], VAL: held_out}
    names = {f"{_IMAGES}/{key}.jpg" for key in keys} | {f"{_LABELS}/{key}.png" for key in keys}
    check_other_files(folder, (f"{_IMAGES}/*", f"{_LABELS}/*"), names, f"photos other than {keys[0]}..{keys[-1]}")
    write_once(folder / CLASSES_FILE, _classes_json().encode(), seed)
    for number, key in enumerate(tqdm(keys, desc="scenes", unit="photo", dynamic_ncols=True, disable=not progress)):
        _write_scene(folder, key, *make_scene(seed, number, size), seed)
    for name, members in lists.items():  # last, so a listed photo exists
        if members:
            write_once(folder / _LISTS / f"{name}.txt", "".join(f"{key}\n" for key in members).encode(), seed)
    return lists[TRAIN], lists[VAL]


def make_scene(seed: int, number: int, size: tuple[int, int] = DEFAULT_SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Returns one scene, which depends only on the arguments.

    Args:
      seed: seed of all scenes.
      number: number of the scene.
      size: (low, high) bounds of the height and of the width in pixels, without high.

    Returns:
      The photo, uint8 `[height, width, 3]`, and the labels, uint8 `[height, width]`, with `ignore_label` where two
      regions touch.
    """
    rng = np.random.default_rng([seed, number])
    height, width = (int(n) for n in rng.integers(*size, 2))
    pixels, labels = painting.background(rng, height, width), np.zeros((height, width), np.uint8)
    for _ in range(rng.integers(*_NUM_SHAPES)):
        label = int(rng.integers(1, len(SCENES.classes)))
        radius = rng.uniform(*_RADIUS) * min(height, width)
        center = rng.uniform(0.5 * radius, np.array((height, width)) - 0.5 * radius)
        rows, columns = painting.turned_grid(height, width, center, rng.uniform(0, 2 * np.pi))
        outline, texture = _SHAPES[label]
        inside = outline(rows / radius, columns / radius)
        pattern = texture(rng, rows, columns)
        pixels = np.where(inside[..., np.newaxis], painting.colored(rng, pattern), pixels)
        labels[inside] = label
    return painting.photographed(rng, pixels), _with_boundaries(labels)


# {label: (outline in units of the radius, texture in -1..1)}
_SHAPES: dict[int, tuple[Callable, Callable]] = {
    1: (painting.disc, painting.plain),
    2: (painting.square, painting.checks),
    3: (painting.triangle, painting.stripes),
    4: (painting.ring, painting.speckles),
}


def _with_boundaries(labels: np.ndarray) -> np.ndarray:
    """Marks a 2 pixel wide boundary between regions with `ignore_label`."""
    across = ndimage.maximum_filter(labels, 3) != ndimage.minimum_filter(labels, 3)
    return np.where(across, np.uint8(SCENES.ignore_label), labels)


def _classes_json() -> str:
    lines = [f"  {json.dumps(name)}: {list(color)}" for name, color in zip(SCENES.classes, SCENES.colors)]
    return '{\n "classes": {\n' + ",\n".join(lines) + f'\n }},\n "ignore_label": {SCENES.ignore_label}\n}}\n'


def _write_scene(folder: Path, key: str, pixels: np.ndarray, labels: np.ndarray, seed: int) -> None:
    """Writes a photo and then its label image. For existing files, only the labels are compared.

    Photo values depend on the JPEG library version, so only the labels reveal a different photo.
    """
    image_path, labels_path = folder / _IMAGES / f"{key}.jpg", folder / _LABELS / f"{key}.png"
    if labels_path.exists() and not np.array_equal(read_label_image(labels_path, SCENES), labels):
        raise difference(labels_path, seed)
    if image_path.exists():
        read_photo(image_path)
    else:
        write_jpeg(image_path, pixels)
    if not labels_path.exists():
        write_label_image(labels_path, labels, SCENES)
