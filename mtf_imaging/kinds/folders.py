"""Tells folders of volumes, photos and objects apart, for messages. Does not import TensorFlow."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.description.dataset_json import FILE
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import VOLUME_FORMATS
from mtf_imaging.errors import DataError

if TYPE_CHECKING:  # imports NumPy
    from mtf_imaging.kinds.photos.description import PhotoDescription

VOLUMES, PHOTOS, OBJECTS = "volumes", "photos", "objects"
_NAMES = {VOLUMES: "volumes", PHOTOS: "photos", OBJECTS: "images with objects"}
_SHORT_NAMES = {PHOTOS: "photos", OBJECTS: "images"}
_DATA_SETS = {PHOTOS: "Photos", OBJECTS: "Objects"}
_PARTS = {PHOTOS: "a list", OBJECTS: "a split"}


def holds_volumes(path: str | Path) -> bool:
    """Returns whether a path is a volume, or a folder with one or with a `dataset.json`."""
    path = Path(path)
    if VOLUME_FORMATS.stem(path) is not None:
        return True
    if not path.is_dir():
        return False
    try:
        return (path / FILE).is_file() or bool(image_files(path, VOLUME_FORMATS, needed=False))
    except DataError:
        return False


def holds_photos(path: str | Path) -> bool:
    """Returns whether a path is a photo, or a folder of photos without volumes."""
    from mtf_imaging.kinds.photos.reading.folders import find_photos

    if not Path(path).exists() or holds_volumes(path):
        return False
    try:
        return bool(find_photos(path, need_labels=False))
    except (DataError, OSError):
        return False


def holds_objects(path: str | Path) -> bool:
    """Returns whether a path is a folder with annotations of objects, as in COCO."""
    from mtf_imaging.kinds.objects.reading.annotations import has_annotations

    return Path(path).is_dir() and has_annotations(path)


def detect_kind(path: str | Path) -> str | None:
    """Returns the kind of the images that a path holds: `VOLUMES`, `OBJECTS` or `PHOTOS`; None if it is not clear."""
    if not Path(path).exists():
        return None
    kinds = {VOLUMES: holds_volumes, OBJECTS: holds_objects, PHOTOS: holds_photos}
    return next((kind for kind, holds in kinds.items() if holds(path)), None)


def check_volumes(path: str | Path, fix: str, *settings: str) -> None:
    """Checks that a path does not hold other images where volumes are needed.

    Args:
      path: a file or folder. It may be missing, which other functions report.
      fix: what to do instead, a sentence without "Fix:". `{kind}`, `{data_set}` and `{part}` are replaced by the kind
        of the images, their data set, and what such a folder names its parts.
      *settings: names of the keyword arguments in the fix.

    Raises:
      DataError: it holds photos, or images with objects.
    """
    kind = detect_kind(path)
    if kind in (PHOTOS, OBJECTS):
        text = fix.format(kind=_SHORT_NAMES[kind], data_set=_DATA_SETS[kind], part=_PARTS[kind])
        raise DataError(f"{path}: holds {_NAMES[kind]}, but volumes are needed here. Fix: {text}", settings)


@contextlib.contextmanager
def explained(path: str | Path, needed: str, *settings: str) -> Iterator[None]:
    """Explains errors about a path that holds another kind of images than a run needs.

    The files of different kinds may have the same formats, so other functions cannot tell what is wrong.

    Args:
      path: a file or folder.
      needed: the kind of images that the run needs.
      *settings: the keyword argument of the path, and "model_dir" or "data", which determines the kind.
    """
    try:
        yield
    except DataError:
        kind = detect_kind(path)
        if kind in (None, needed) or (needed == PHOTOS and _has_label_images(path)):
            raise
        assert kind is not None
        own, other = _NAMES[needed], _NAMES[kind]
        fix = f"the folder of a run on {other} as model_dir"
        if "data" in settings:
            fix = (
                f"choose {_DATA_SETS[kind]} as the data set" if kind in _DATA_SETS else "convert the volumes to records"
            )
            raise DataError(
                f"{path}: holds {other}, but the data set is of {own}. Fix: give {own} as {settings[0]}, or {fix}.",
                settings,
            ) from None
        raise DataError(
            f"{path}: holds {other}, but {own} are needed here. Fix: give {own} as {settings[0]}, or {fix}.", settings
        ) from None


def _has_label_images(path: str | Path) -> bool:
    from mtf_imaging.kinds.photos.reading.folders import find_photos

    try:
        return bool(find_photos(path))
    except (DataError, OSError):
        return False


def check_same_classes(path: str | Path, own: "PhotoDescription", expected: "PhotoDescription") -> None:
    """Checks that a folder of photos has the classes of the training.

    Args:
      path: the folder.
      own: its description.
      expected: the description of the training data.

    Raises:
      DataError: the classes differ.
    """
    if own.classes != expected.classes:
        raise DataError(
            f"{path}: has the classes {', '.join(own.classes)}, but the network was trained with "
            f"{', '.join(expected.classes)}. Fix: give data like those of the training."
        )


def check_no_volumes(path: str | Path, setting: str, needed: str = PHOTOS) -> None:
    """Checks that a path does not hold volumes where photos or images with objects are needed.

    Args:
      path: a file or folder.
      setting: the keyword argument of the path.
      needed: the kind of images of the run.

    Raises:
      DataError: it holds volumes.
    """
    if Path(path).exists() and holds_volumes(path):
        own = _NAMES[needed]
        raise DataError(
            f"{path}: holds volumes, but the network was trained on {own}. Fix: give {own} as {setting}, or the "
            "folder of a run on volumes as model_dir.",
            [setting, "model_dir"],
        )
