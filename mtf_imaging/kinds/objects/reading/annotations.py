"""Finds the images in a folder with COCO's structure, with the annotations of their objects."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.data.pixels.exif_orientation import UPRIGHT, Orientation
from mtf_imaging.data.pixels.photo_files import PHOTOS, files_by_stem, photo_size
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.instances import Annotated, ImageEntry, Instances, read_instances
from mtf_imaging.plain_text import some
from mtf_imaging.spelling import did_you_mean

__all__ = [
    "Annotated",
    "ObjectImage",
    "annotation_file",
    "find_object_images",
    "has_annotations",
    "object_description",
    "splits",
]

_ANNOTATIONS, _PREFIX, _ENDING = "annotations", "instances_", ".json"
_SHOWN = 5  # names listed in a message


@dataclass(frozen=True)
class ObjectImage:
    """One image.

    Attributes:
      key: the image name without the ending, unique in its split.
      image: the file.
      image_id: the ID in the annotations.
      height, width: the image size.
      objects: the objects in the order of the file, including crowd regions; None in a folder without annotations.
      orientation: the rotation of the stored pixels for this image; see `upright_image`. The height, the width and the
        objects refer to the turned image.
    """

    key: str
    image: Path
    image_id: int
    height: int
    width: int
    objects: tuple[Annotated, ...] | None
    orientation: Orientation = UPRIGHT


def find_object_images(
    folder: str | Path,
    split: str | None = None,
    description: ObjectDescription | None = None,
    need_annotations: bool = True,
) -> list[ObjectImage]:
    """Lists the images in a folder.

    A folder with COCO's structure contains `annotations/instances_SPLIT.json` for each split:

    - "images" is a list of objects with "id", "file_name", "height" and "width".
    - "categories" is a list of objects with "id" and "name". Class i of a network is the category with the i-th lowest
      ID, so the IDs may have gaps.
    - "annotations" is a list of objects with "id", "image_id", "category_id" and "bbox" (x, y, width, height). The
      optional keys are "segmentation" (polygons or a run-length encoding, compressed or not), "area" and "iscrowd".

    The images are in the folder `SPLIT`, `images/SPLIT`, `images`, or the folder itself: the first one that contains
    the first image. They are JPEG, PNG or TIFF files with 8 bits per channel. Grayscale and palette images are
    converted to RGB. As in COCO, sizes, boxes and masks refer to the stored pixels, whatever the EXIF orientation.
    Images without annotations are backgrounds, and boxes may exceed the image.

    Args:
      folder: a folder with COCO's structure; without `need_annotations`, also a folder of images or one image.
      split: the name of a split, such as "train2017". None for the only split.
      description: the categories of a run. None for the categories of the split.
      need_annotations: whether the folder must have annotations. In a folder without them, image IDs are the image
        names if all names are numbers, as in COCO, and 1, 2, ... otherwise.

    Returns:
      At least one image.

    Raises:
      DataError: the folder has another structure, the split is unknown, images are missing, the annotations are
        invalid, or they have categories that are not in `description`.
    """
    folder = Path(folder)
    if not need_annotations and not has_annotations(folder):
        return _plain_images(folder, split)
    path = annotation_file(folder, split)
    instances = read_instances(path)
    if not instances.images:
        raise DataError(f"{path}: lists no images. Fix: add images, or choose another split.", ["split"])
    classes = _classes(instances, description, path)
    keys, files = _keys(instances.images, path), _files(folder, _split_name(path), instances.images, path)
    return [
        ObjectImage(key, file, entry.image_id, entry.height, entry.width, _renumbered(entry.objects, classes))
        for key, file, entry in zip(keys, files, instances.images, strict=True)
    ]


def has_annotations(folder: str | Path) -> bool:
    """Returns whether a folder has annotations in COCO's structure."""
    return bool(splits(folder))


def splits(folder: str | Path) -> tuple[str, ...]:
    """Returns the split names of a folder, sorted; () if there are none."""
    folder = Path(folder)
    with access_named(folder):
        files = [path for path in (folder / _ANNOTATIONS).glob(f"{_PREFIX}*") if path.suffix.lower() == _ENDING]
        return tuple(sorted(map(_split_name, files)))


def annotation_file(folder: str | Path, split: str | None = None) -> Path:
    """Returns the annotation file of a split.

    Args:
      folder: a folder with COCO's structure.
      split: the name of the split. None for the only split.

    Raises:
      DataError: the folder has no annotations, the split is unknown, or `split` is None and there are several.
    """
    folder = Path(folder)
    names = splits(folder)
    if not names:
        raise DataError(_fault_of_layout(folder))
    if split is None and len(names) > 1:
        raise DataError(f"{folder}: has the splits {', '.join(names)}. Fix: choose one of them.", ["split"])
    if split is not None and split not in names:
        raise DataError(
            f"{folder}: has no split '{split}', because {_ANNOTATIONS}/{_PREFIX}{split}.json is missing."
            f"{did_you_mean(split, names)} Fix: choose one of {', '.join(names)}.",
            ["split"],
        )
    path = folder / _ANNOTATIONS / f"{_PREFIX}{split or names[0]}{_ENDING}"
    return path if path.exists() else path.with_name(path.stem + _ENDING.upper())


def object_description(folder: str | Path, split: str | None = None) -> ObjectDescription:
    """Returns the categories of a folder.

    Args:
      folder: a folder with COCO's structure.
      split: the split whose categories are returned. None for the split with the smallest file.

    Raises:
      DataError: the folder has no annotations, the split is unknown, or its annotations are invalid.
    """
    if split is None and splits(folder):
        path = min((annotation_file(folder, name) for name in splits(folder)), key=lambda path: path.stat().st_size)
    else:
        path = annotation_file(folder, split)
    return ObjectDescription(read_instances(path).categories)


def _split_name(path: Path) -> str:
    return path.name.removeprefix(_PREFIX)[: -len(_ENDING)]


def _fault_of_layout(folder: Path) -> str:
    """Returns the message about a path that is not a folder with annotations."""
    inside = [path for path in sorted(folder.iterdir()) if splits(path)] if folder.is_dir() else []
    fix = (
        f"give {inside[0]}"
        if inside
        else f"give a folder that contains {_ANNOTATIONS}/{_PREFIX}SPLIT.json and the images, as in COCO"
    )
    what = "has no annotations of objects" if folder.is_dir() else "is not a folder"
    fault = what if folder.exists() else "does not exist"
    return f"{folder}: {fault}. Fix: {fix}."


def _classes(instances: Instances, description: ObjectDescription | None, path: Path) -> list[int] | None:
    """Returns the class of each category in a file; None if they are already 0, 1, ..."""
    if description is None or description.categories == instances.categories:
        return None
    at = {category: number for number, category in enumerate(description.categories)}
    unknown = [category for category in instances.categories if category not in at]
    if unknown:
        (category_id, name), names = unknown[0], ", ".join(f"{number} '{one}'" for number, one in at)
        raise DataError(
            f"{path}: {len(unknown)} of its categories are not those of the run, such as {category_id} '{name}'. The "
            f"run has {names if len(at) <= _SHOWN else f'{len(at)} categories'}. Fix: use the same IDs and names."
        )
    return [at[category] for category in instances.categories]


def _renumbered(objects: tuple[Annotated, ...], classes: Sequence[int] | None) -> tuple[Annotated, ...]:
    if classes is None:
        return objects
    return tuple(one._replace(category=classes[one.category]) for one in objects)


def _keys(entries: Sequence[ImageEntry], path: Path) -> list[str]:
    """Returns the image names without endings."""
    keys: dict[str, str] = {}
    for entry in entries:
        name = PurePosixPath(normalize_name(entry.file_name))
        key = str(name.with_suffix(""))
        if key in keys:
            raise DataError(
                f"{path}: the image {entry.image_id} has the file_name '{entry.file_name}', but '{keys[key]}' has the "
                "same name without its ending. Fix: rename one of them."
            )
        keys[key] = entry.file_name
    return [*keys]


def _files(folder: Path, split: str, entries: Sequence[ImageEntry], path: Path) -> list[Path]:
    """Returns the files of the images, and checks that they exist."""
    candidates = [folder / split, folder / "images" / split, folder / "images", folder]
    with access_named(folder):
        here = [one for one in candidates if _exists(one, entries[0].file_name)]
    if not here:
        places = ", ".join(str(one.relative_to(folder)) for one in candidates)
        raise DataError(
            f"{path}: the image {entries[0].image_id}, '{entries[0].file_name}', is in none of the folders {places} of "
            f"{folder}. Fix: copy the images into {candidates[0]}."
        )
    files = [here[0] / entry.file_name for entry in entries]
    listed = {parent: _names(parent) for parent in {file.parent for file in files}}
    missing = [file.name for file in files if normalize_name(file.name) not in listed[file.parent]]
    if missing:
        raise DataError(
            f"{path}: {len(missing)} of {len(files)} images are not in {here[0]}: {some(missing, _SHOWN)}. "
            "Fix: add the images, or correct these names."
        )
    return [file.with_name(listed[file.parent][normalize_name(file.name)]) for file in files]


def _exists(folder: Path, name: str) -> bool:
    """Returns whether a folder has a file, even if its name uses another Unicode normalization."""
    file = folder / name
    return file.is_file() or normalize_name(file.name) in _names(file.parent)


def _names(folder: Path) -> dict[str, str]:
    """Returns {normalized file name: file name} for a folder, with one system call for many files."""
    if not folder.is_dir():
        return {}
    with access_named(folder), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    return {normalize_name(name): name for name in names}


def _plain_images(folder: Path, split: str | None) -> list[ObjectImage]:
    """Lists the images in a folder without annotations, or one image."""
    with access_named(folder):
        is_image = folder.is_file() and PHOTOS.stem(folder) is not None
    if split is not None or not (is_image or (folder.is_dir() and image_files(folder, PHOTOS, subfolders=False))):
        fault = _fault_of_layout(folder)
        raise DataError(fault if split is not None else f"{fault[:-1]}, or a folder of {PHOTOS.shown} images.")
    files = {PHOTOS.stem(folder) or folder.name: folder} if is_image else files_by_stem(folder, PHOTOS)
    keys = sorted(files)
    return [
        ObjectImage(key, files[key], image_id, *photo_size(files[key]), None)
        for key, image_id in zip(keys, _plain_ids(keys), strict=True)
    ]


def _plain_ids(keys: Sequence[str]) -> Iterable[int]:
    numbers = [int(key) for key in keys if key.isascii() and key.isdigit()]
    return numbers if len({*numbers}) == len(keys) else range(1, len(keys) + 1)
