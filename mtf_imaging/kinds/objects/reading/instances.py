"""Reads an instance file in COCO's format, such as `instances_train2017.json`.

COCO's file for the training images has 450 MB. Polygons are converted to arrays while the file is parsed, because lists
of numbers need eight times the memory.
"""

import contextlib
import functools
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.listing.names import is_text
from mtf_imaging.errors import DataError
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


class _Entries:
    """The entries of a list, with errors that name an entry.

    Args:
      path: the file.
      name: the key of the list.
    """

    def __init__(self, path: Path, name: str):
        self._path, self._name = path, name
        self._ids: set[int] = set()

    def error(self, number: int, entry: object, what: str, fix: str) -> DataError:
        """Returns an error about an entry."""
        entry_id = entry.get("id") if isinstance(entry, Mapping) else None
        shown = "" if entry_id is None else f" (id {entry_id!r})"
        return DataError(f"{self._path}: {self._name}[{number}]{shown} {what}. Fix: {fix}.")

    def check(self, number: int, entry: object, keys: tuple[str, ...]) -> None:
        """Raises DataError if an entry lacks a key, or if its ID is not a unique integer."""
        if not isinstance(entry, Mapping):
            raise self.error(number, entry, f"is {_shown(entry)}, not an object", "write an object")
        for key in keys:
            if key not in entry:
                raise self.error(number, entry, f"has no key '{key}'", "add it")
        entry_id = entry["id"]
        if not is_integer(entry_id):
            raise self.error(number, entry, "has an id that is not an integer", "use integers as IDs")
        if entry_id in self._ids:
            raise self.error(number, entry, "has the id of an earlier entry", f"give all {self._name} different IDs")
        self._ids.add(entry_id)


def _categories(entries: list, path: Path) -> tuple[tuple[int, str], ...]:
    listed, categories = _Entries(path, "categories"), []
    for number, entry in enumerate(entries):
        listed.check(number, entry, ("id", "name"))
        categories.append((entry["id"], entry["name"]))
    try:
        return ObjectDescription(tuple(sorted(categories, key=lambda category: category[0]))).categories
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _images(
    entries: list, annotations: list, categories: tuple[tuple[int, str], ...], path: Path
) -> tuple[ImageEntry, ...]:
    listed = _Entries(path, "images")
    objects: dict[int, list[Annotated]] = {}
    sizes = {}
    for number, entry in enumerate(entries):
        listed.check(number, entry, ("id", "file_name", "height", "width"))
        if not isinstance(entry["file_name"], str) or not _is_file_name(entry["file_name"]):
            raise listed.error(number, entry, "has a file_name that is not a name", "write the name of the image file")
        for key in ("height", "width"):
            if not is_integer(entry[key]) or entry[key] < 1:
                raise listed.error(
                    number,
                    entry,
                    f"has the {key} {_shown(entry[key])}, not a positive integer",
                    f"write the {key} of {entry['file_name']} in pixels",
                )
        sizes[entry["id"]] = entry["height"], entry["width"]
        objects[entry["id"]] = []
    _add_annotations(objects, sizes, annotations, categories, path)
    return tuple(
        ImageEntry(entry["id"], entry["file_name"], entry["height"], entry["width"], tuple(objects.pop(entry["id"])))
        for entry in entries
    )


def _is_file_name(name: str) -> bool:
    path = PurePosixPath(name)
    fits = all(len(part.encode()) <= MAX_NAME for part in path.parts) if is_text(name) else False
    return fits and bool(path.name) and path.name != ".."


def _add_annotations(
    objects: dict[int, list[Annotated]],
    sizes: dict[int, tuple[int, int]],
    entries: list,
    categories: tuple[tuple[int, str], ...],
    path: Path,
) -> None:
    """Appends each annotation to the objects of its image."""
    listed = _Entries(path, "annotations")
    class_of_id = {category_id: at for at, (category_id, _) in enumerate(categories)}
    for number, entry in enumerate(_progress(f"checking {path.name}", entries)):
        listed.check(number, entry, ("id", "image_id", "category_id", "bbox"))
        image_id, category_id = entry["image_id"], entry["category_id"]
        if not is_integer(image_id) or image_id not in objects:
            what = f"has the image_id {_shown(image_id)}, which is not in images"
            raise listed.error(number, entry, what, "add the image, or remove the annotation")
        if not is_integer(category_id) or category_id not in class_of_id:
            what = f"has the category_id {_shown(category_id)}, which is not in categories"
            raise listed.error(number, entry, what, "add the category, or correct the ID")
        box, area, is_crowd = entry["bbox"], entry.get("area"), entry.get("iscrowd", 0)
        if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)) or min(box[2:]) < 0:
            what = f"has the bbox {_shown(box)}, not x, y, width and height in pixels"
            raise listed.error(number, entry, what, "write four numbers; width and height must not be negative")
        if area is not None and (not _is_number(area) or area < 0):
            raise listed.error(
                number, entry, f"has the area {_shown(area)}, not a number of pixels", "correct or remove it"
            )
        if is_crowd not in (0, 1):
            raise listed.error(number, entry, f"has iscrowd {_shown(is_crowd)}, not 0 or 1", "write 0 or 1")
        segmentation = entry.get("segmentation")
        fault = segmentation is not None and _fault_of_segmentation(segmentation, sizes[image_id])
        if fault:
            raise listed.error(number, entry, *fault)
        x, y, width, height = map(float, box)
        objects[image_id].append(
            Annotated(
                class_of_id[category_id],
                (y, x, y + height, x + width),
                segmentation or None,
                bool(is_crowd),
                width * height if area is None else float(area),
                entry["id"],
            )
        )
        entries[number] = {}  # frees its memory


def _fault_of_segmentation(segmentation: object, size: tuple[int, int]) -> tuple[str, str] | None:
    """Returns the fault of a segmentation with its fix, or None."""
    if isinstance(segmentation, tuple):
        for polygon in segmentation:
            if polygon.ndim != 1 or polygon.size < 6 or polygon.size % 2 or not math.isfinite(polygon.sum()):
                what = f"has a polygon of {polygon.size} numbers, not of x and y of at least three points"
                return what, "correct or remove the polygon"
        return None
    if not isinstance(segmentation, Mapping):
        return "has a segmentation that is neither polygons nor a run-length encoding", "correct or remove it"
    stated, counts = segmentation.get("size"), segmentation.get("counts")
    if stated != [*size]:
        what = f"has a segmentation of the size {_shown(stated)} (height, width), but its image has {[*size]}"
        return what, "make the sizes equal"
    if isinstance(counts, str):
        valid = _COMPRESSED.fullmatch(counts)
    else:
        valid = isinstance(counts, list) and all(is_integer(n) and n >= 0 for n in counts)
        valid = valid and sum(counts) == size[0] * size[1]
    if not valid:
        return (
            f"has a segmentation whose counts are not the run lengths of {size[0]} x {size[1]} pixels",
            "write the mask again, for instance with pycocotools.mask.encode",
        )
    return None


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer with hundreds of digits
        return False


def _shown(value: object) -> str:
    """Returns a value as text of a limited length."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
