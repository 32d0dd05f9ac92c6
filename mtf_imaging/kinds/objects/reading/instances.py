"""Reads an instance file in COCO's format, such as `instances_train2017.json`.

COCO's file for the training images has 450 MB. Polygons are converted to arrays while the file is parsed, because lists
of numbers need eight times the memory.
"""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.listing.names import is_text
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.contained import MAX_NAME
from mtf_imaging.files.json_file import read_json
from mtf_imaging.files.reading import access_named
from mtf_imaging.kinds.objects.description import ObjectDescription, is_integer

# Polygons, each float64 [2 * points] of alternating x and y, or {"size": [height, width], "counts": ...}.
Segmentation = tuple[np.ndarray, ...] | dict[str, Any]

_LISTS = ("images", "annotations", "categories")
_PROGRESS_AFTER = 2.0  # seconds
# Six bits per character, starting at "0"; all characters of a number except the last have the highest bit set.
_COMPRESSED = re.compile("(?:[0-o]*[0-O])?")


class Annotated(NamedTuple):
    """One object, or a region of many objects, of an image.

    Attributes:
      category: the network's class, from 0.
      box: y0, x0, y1, x1 in pixels of the image; the box may exceed the image.
      segmentation: polygons or a run-length encoding, for `masks`; None if the file does not have one.
      is_crowd: whether the region contains many objects. Training skips such regions, and the scores ignore detections
        in them.
      area: the area of the mask in pixels.
      annotation_id: the ID in the file.
    """

    category: int
    box: tuple[float, float, float, float]
    segmentation: Segmentation | None
    is_crowd: bool
    area: float
    annotation_id: int


class ImageEntry(NamedTuple):
    """One image in an instance file.

    Attributes:
      image_id: the ID in the file.
      file_name: the image name, relative to the image folder.
      height, width: the image size.
      objects: the objects in file order.
    """

    image_id: int
    file_name: str
    height: int
    width: int
    objects: tuple[Annotated, ...]


class Instances(NamedTuple):
    """The contents of an instance file.

    Attributes:
      categories: pairs (ID, name) of the categories, sorted by ID. The index is the class.
      images: the images in file order.
    """

    categories: tuple[tuple[int, str], ...]
    images: tuple[ImageEntry, ...]


def read_instances(path: str | Path) -> Instances:
    """Reads an instance file; the last two files are kept in memory.

    Raises:
      DataError: the file is missing or not valid JSON, or an entry is incomplete or refers to a missing entry.
    """
    path = Path(path)
    with access_named(path):
        status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=2)
def _read(path: Path, changed: int, size: int) -> Instances:
    """Reads a file; its modification time and size identify its contents in the cache."""
    with _progress(f"reading {path.name}") as bar:
        fields = read_json(path, "correct it, or fetch it again", lambda entry: _compact(entry, bar))
    for name in _LISTS:
        if not isinstance(fields, dict) or not isinstance(fields.get(name), list):
            raise DataError(
                f"{path}: has no list with the key '{name}'. Fix: write an object with the lists {', '.join(_LISTS)}, "
                "as in instances_val2017.json of COCO."
            )
    categories = _categories(fields.pop("categories"), path)
    return Instances(categories, _images(fields.pop("images"), fields.pop("annotations"), categories, path))


def _progress(what: str, entries: Iterable | None = None) -> tqdm:
    """Returns a progress bar, which only large files show."""
    return tqdm(entries, desc=what, unit="entry", dynamic_ncols=True, delay=_PROGRESS_AFTER)


def _compact(fields: dict[str, Any], bar: tqdm) -> dict[str, Any]:
    """Replaces the polygons of an annotation with arrays; invalid polygons remain, for a later message."""
    bar.update()
    polygons = fields.get("segmentation")
    if isinstance(polygons, list):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            fields["segmentation"] = tuple([np.array(polygon, np.float64) for polygon in polygons])
    return fields


class _Field(NamedTuple):
    """A field of the entries of a list.

    Attributes:
      key: its name.
      is_valid: whether a value is valid.
      meaning: what a valid value is.
      is_optional: whether an entry may lack the field.
    """

    key: str
    is_valid: Callable[[Any], bool]
    meaning: str
    is_optional: bool = False


def _checked(path: Path, name: str, entries: Iterable, fields: Sequence[_Field]) -> Iterator[dict[str, Any]]:
    """Yields the entries of a list.

    Args:
      path: the file.
      name: the key of the list.
      entries: the entries.
      fields: their fields, in addition to "id".

    Raises:
      DataError: a field of an entry is missing or invalid, or two entries have one ID.
    """
    ids: set[int] = set()
    own = _Field("id", lambda value: is_integer(value) and value not in ids, "a unique integer")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DataError(f"{path}: {name}[{number}] is {_shown(entry)}, not an object. Fix: write an object.")
        for key, is_valid, meaning, is_optional in (own, *fields):
            if (key in entry and is_valid(entry[key])) or (key not in entry and is_optional):
                continue
            stated = f"the {key} {_shown(entry[key])}, not {meaning}" if key in entry else f"no {key}, {meaning}"
            where = f"{name}[{number}]" + (f" (id {_shown(entry['id'])})" if "id" in entry else "")
            raise DataError(f"{path}: {where} has {stated}. Fix: correct the file, or fetch it again.")
        ids.add(entry["id"])
        yield entry


def _categories(entries: list, path: Path) -> tuple[tuple[int, str], ...]:
    name = _Field("name", lambda value: isinstance(value, str), "a text")
    categories = [(entry["id"], entry["name"]) for entry in _checked(path, "categories", entries, [name])]
    try:
        return ObjectDescription(tuple(sorted(categories))).categories
    except ConfigError as error:
        raise DataError(f"{path}: {error} Fix: correct the categories.") from error


def _images(
    entries: list, annotations: list, categories: tuple[tuple[int, str], ...], path: Path
) -> tuple[ImageEntry, ...]:
    fields = [
        _Field("file_name", _is_file_name, "the name of an image file"),
        _Field("height", _is_size, "a positive integer"),
        _Field("width", _is_size, "a positive integer"),
    ]
    images = [*_checked(path, "images", entries, fields)]
    sizes = {entry["id"]: (entry["height"], entry["width"]) for entry in images}
    objects: dict[int, list[Annotated]] = {image_id: [] for image_id in sizes}
    for image_id, annotated in _annotations(annotations, sizes, categories, path):
        objects[image_id].append(annotated)
    return tuple(
        ImageEntry(entry["id"], entry["file_name"], *sizes[entry["id"]], tuple(objects.pop(entry["id"])))
        for entry in images
    )


def _annotations(
    entries: list, sizes: Mapping[int, tuple[int, int]], categories: tuple[tuple[int, str], ...], path: Path
) -> Iterator[tuple[int, Annotated]]:
    """Yields the ID of the image and the object of each annotation."""
    class_of_id = {category_id: at for at, (category_id, _) in enumerate(categories)}
    fields = [
        _Field("image_id", lambda value: is_integer(value) and value in sizes, "the id of one of the images"),
        _Field("category_id", lambda value: is_integer(value) and value in class_of_id, "the id of a category"),
        _Field("bbox", _is_box, "x, y, width and height in pixels"),
        _Field("area", lambda value: value is None or (_is_number(value) and value >= 0), "a number of pixels", True),
        _Field("iscrowd", lambda value: value in (0, 1), "0 or 1", True),
    ]
    shown, largest = _progress(f"checking {path.name}", entries), 0.0
    for number, entry in enumerate(_checked(path, "annotations", shown, fields)):
        size, segmentation, area = sizes[entry["image_id"]], entry.get("segmentation") or None, entry.get("area")
        if segmentation is not None and not _is_segmentation(segmentation, size):
            raise DataError(
                f"{path}: annotations[{number}] (id {entry['id']}) has a segmentation that is neither polygons of at "
                f"least three points nor the run lengths of {size[0]} x {size[1]} pixels (height x width). Fix: write "
                "it again."
            )
        x, y, width, height = map(float, entry["bbox"])
        largest = max(largest, x + width, y + height)
        yield (
            entry["image_id"],
            Annotated(
                class_of_id[entry["category_id"]],
                (y, x, y + height, x + width),
                segmentation,
                bool(entry.get("iscrowd", 0)),
                width * height if area is None else float(area),
                entry["id"],
            ),
        )
        entries[number] = {}  # frees its memory
    if entries and largest <= 1:
        raise DataError(
            f"{path}: no box reaches beyond {largest:g}, so the boxes are parts of the image, as in YOLO. Fix: "
            "multiply boxes, polygons and areas by the width and the height of the image, for pixels."
        )


def _is_file_name(name: object) -> bool:
    if not isinstance(name, str) or not is_text(name):
        return False
    path = PurePosixPath(name)
    return bool(path.name) and path.name != ".." and all(len(part.encode()) <= MAX_NAME for part in path.parts)


def _is_size(value: object) -> bool:
    return is_integer(value) and value >= 1


def _is_box(box: object) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(map(_is_number, box)) and min(box[2:]) >= 0


def _is_segmentation(segmentation: object, size: tuple[int, int]) -> bool:
    """Returns whether a segmentation is valid for an image of a height and a width."""
    if isinstance(segmentation, tuple):
        return all(
            polygon.ndim == 1 and polygon.size >= 6 and polygon.size % 2 == 0 and math.isfinite(polygon.sum())
            for polygon in segmentation
        )
    if not isinstance(segmentation, Mapping) or segmentation.get("size") != [*size]:
        return False
    counts = segmentation.get("counts")
    if isinstance(counts, str):
        return _COMPRESSED.fullmatch(counts) is not None
    return isinstance(counts, list) and all(is_integer(n) and n >= 0 for n in counts) and sum(counts) == math.prod(size)


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer with hundreds of digits
        return False


def _shown(value: object) -> str:
    """Returns a value as text of a limited length."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
