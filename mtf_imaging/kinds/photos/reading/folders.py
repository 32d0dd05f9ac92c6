"""Finds the photos and label images in a folder, and the description of its classes.

Supported folders are PASCAL VOC, Cityscapes, pairs (`images/` and `labels/`), and photos without labels.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import PNG
from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.data.pixels.photo_files import PHOTOS, files_by_stem
from mtf_imaging.errors import DataError
from mtf_imaging.files.json_file import read_json
from mtf_imaging.files.reading import access_named
from mtf_imaging.files.text_file import read_text
from mtf_imaging.kinds.photos.description import (
    CITYSCAPES,
    VOC,
    PhotoDescription,
    photo_description_from_fields,
)
from mtf_imaging.plain_text import some
from mtf_imaging.spelling import did_you_mean

CLASSES_FILE = "classes.json"
_LABELED = (
    "JPEGImages, SegmentationClass and ImageSets/Segmentation, as in PASCAL VOC; leftImg8bit and gtFine, as in "
    "Cityscapes; or images and labels"
)
_CITYSCAPES_PHOTO = "_leftImg8bit.png"
_LABEL_IDS, _TRAIN_IDS = "_gtFine_labelIds.png", "_gtFine_labelTrainIds.png"
_LIST = ".txt"  # the ending of a photo list


@dataclass(frozen=True)
class Photo:
    """The files of one photo.

    Attributes:
      key: the name of the photo, unique in its folder. In a Cityscapes folder, `CITY/NAME` without the ending.
      image: the photo.
      labels: the label image, or None.
    """

    key: str
    image: Path
    labels: Path | None


def find_photos(folder: str | Path, split: str | None = None, need_labels: bool = True) -> list[Photo]:
    """Lists the photos in a folder in the order of its list, or sorted by key without a list.

    Args:
      folder: a folder of one of the four kinds; without `need_labels`, also one photo.
      split: the name of a list in the folder, such as "train", or of a folder in `leftImg8bit`; None for all photos. If
        `need_labels` is set, all photos of a PASCAL VOC folder means all photos with a label image.
      need_labels: whether every photo must have a label image. Otherwise, `labels` is None for photos without one.

    Returns:
      At least one photo.

    Raises:
      DataError: the folder has an unknown structure or no photos, the split is unknown, or files are missing.
    """
    folder = Path(folder)
    if not need_labels and split is None and _is_photo(folder):
        return [Photo(PHOTOS.stem(folder) or folder.name, folder, None)]
    layout = _layout(folder)
    if split is not None:
        _check_split(folder, layout, split)
    photos = layout.photos(folder, split, need_labels)
    if not photos:
        where = f"{folder}: split '{split}'" if split is not None else str(folder)
        raise DataError(f"{where}: contains no photos ({PHOTOS.shown}). Fix: check the path and the lists.")
    if need_labels:
        missing = [photo for photo in photos if photo.labels is None]
        if missing:
            raise DataError(
                f"{folder}: {len(missing)} of {len(photos)} photos have no label image in {layout.label_folder}: "
                f"{some([photo.key for photo in missing], 5)}. Fix: add them as PNG files, or leave these photos out."
            )
    return photos


def splits(folder: str | Path) -> tuple[str, ...]:
    """Returns the split names of a folder, sorted; () if there are none.

    Raises:
      DataError: the folder has an unknown structure.
    """
    folder = Path(folder)
    return _layout(folder).splits(folder)


def photo_description(folder: str | Path) -> PhotoDescription:
    """Returns the classes in `classes.json`, else the PASCAL VOC or Cityscapes classes, by folder structure.

    Raises:
      DataError: the file is invalid; or it is missing, and the folder structure does not imply the classes.
    """
    folder = Path(folder)
    path = folder / CLASSES_FILE
    with access_named(folder):
        exists = path.exists()
    if exists:
        return photo_description_from_fields(read_json(path), str(path))
    description = _layout(folder).description(folder)
    if description is None:
        raise DataError(
            f"{path}: this file is missing, and the form of the folder does not tell the classes. "
            'Fix: write it, for example {"classes": {"background": [0, 0, 0], "road": [128, 64, 128]}}.'
        )
    return description


@dataclass(frozen=True)
class _Lists:
    """A folder with lists of keys: PASCAL VOC, pairs, or photos only.

    Attributes:
      image_folder, label_folder, list_folder: subfolders of the photos, the label images and the lists.
      classes: the description without `classes.json`, or None.
      labels_select: whether, without a list, only photos with a label image belong to the data set.
    """

    image_folder: str
    label_folder: str
    list_folder: str
    classes: PhotoDescription | None
    labels_select: bool

    def description(self, folder: Path) -> PhotoDescription | None:
        """Returns the class description that applies without `classes.json`."""
        return self.classes

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Returns the names of the lists."""
        with access_named(folder):
            lists = [*(folder / self.list_folder).glob("[!.]*")]
        return tuple(sorted(path.stem for path in lists if path.suffix.lower() == _LIST))

    def photos(self, folder: Path, split: str | None, need_labels: bool) -> list[Photo]:
        """Lists the photos of a split."""
        images = files_by_stem(folder / self.image_folder, PHOTOS)
        if need_labels:
            _check_folder(folder, self.label_folder)
        has_labels = (folder / self.label_folder).is_dir()
        labels = files_by_stem(folder / self.label_folder, PNG) if has_labels else {}
        if split is not None:
            keys = self._listed(folder, split, images)
        elif need_labels and self.labels_select:
            keys = sorted(labels)
            _check_photos_exist(folder / self.image_folder, keys, images, f"{folder / self.label_folder}")
        else:
            keys = sorted(images)
        return [Photo(key, images[key], labels.get(key)) for key in keys]

    def _listed(self, folder: Path, split: str, images: dict[str, Path]) -> list[str]:
        """Returns the keys in a list."""
        path = folder / self.list_folder / f"{split}{_LIST}"
        if not path.exists():  # the ending may be in upper case
            path = path.with_suffix(_LIST.upper())
        keys = [normalize_name(line.strip()) for line in read_text(path).split("\n") if line.strip()]
        _check_unique(keys, path)
        _check_photos_exist(folder / self.image_folder, keys, images, str(path))
        return keys


class _Cityscapes:
    """A folder with subfolders for splits and cities."""

    label_folder, list_folder = "gtFine", ""
    _image_folder = "leftImg8bit"

    def description(self, folder: Path) -> PhotoDescription | None:
        """Returns the description of Cityscapes; files of train IDs store labels."""
        return CITYSCAPES if self._label_ending(folder) == _LABEL_IDS else replace(CITYSCAPES, values=())

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Returns the subfolder names in `leftImg8bit`."""
        return tuple(path.name for path in _subfolders(folder / self._image_folder))

    def photos(self, folder: Path, split: str | None, need_labels: bool) -> list[Photo]:
        """Lists the photos of a split, or of all splits."""
        if need_labels:
            _check_folder(folder, self.label_folder)
        ending, photos = self._label_ending(folder), []
        for part in (split,) if split is not None else self.splits(folder):
            for city in _subfolders(folder / self._image_folder / part):
                labels = _by_lower_name(folder / self.label_folder / part / city.name)
                for image in image_files(city, PHOTOS, False, _is_cityscapes_photo):
                    stem = normalize_name(image.name[: -len(_CITYSCAPES_PHOTO)])
                    photos.append(Photo(f"{city.name}/{stem}", image, labels.get(f"{stem}{ending}".lower())))
        _check_unique([photo.key for photo in photos], folder)
        return photos

    def _label_ending(self, folder: Path) -> str:
        """Returns the ending of the label images: train IDs only if there are no label IDs."""
        for ending in (_LABEL_IDS, _TRAIN_IDS):
            if any((folder / self.label_folder).glob(f"*/*/*{ending}")):
                return ending
        return _LABEL_IDS


# {subfolder: folder structure}, in the order in which they are recognized
_LAYOUTS = {
    "JPEGImages": _Lists("JPEGImages", "SegmentationClass", "ImageSets/Segmentation", VOC, labels_select=True),
    "leftImg8bit": _Cityscapes(),
    "images": _Lists("images", "labels", "splits", None, labels_select=False),
}
_PHOTOS_ONLY = _Lists(".", "labels", "splits", None, labels_select=False)
_Layout = _Lists | _Cityscapes


def _layout(folder: Path) -> _Layout:
    """Returns the structure of a folder."""
    layout = _layout_or_none(folder)
    if layout is not None:
        return layout
    if image_files(folder, PHOTOS, subfolders=False):
        return _PHOTOS_ONLY
    inside = [path for path in _subfolders(folder, depth=2) if _layout_or_none(path)]
    forms = f"a folder that contains {_LABELED}; for prediction, photos ({PHOTOS.shown}) are enough"
    fix = f"give {inside[0] if inside else forms}"
    raise DataError(f"{folder}: is not a folder of photos in a known form. Fix: {fix}.")


def _layout_or_none(folder: Path) -> _Layout | None:
    with access_named(folder):
        return next((layout for name, layout in _LAYOUTS.items() if (folder / name).is_dir()), None)


def _check_split(folder: Path, layout: _Layout, split: str) -> None:
    names = layout.splits(folder)
    if split in names:
        return
    why, fix = did_you_mean(split, names), f"choose one of {', '.join(names)}"
    if not names:
        why = " It has no lists."
        fix = f"write {layout.list_folder}/{split}.txt with a name per line, or set split to None for all photos"
    raise DataError(f"{folder}: has no split '{split}'.{why} Fix: {fix}.", ["split"])


def _check_folder(folder: Path, name: str) -> None:
    with access_named(folder / name):
        exists = (folder / name).is_dir()
    if not exists:
        raise DataError(
            f"{folder}: has no folder {name}, so it contains photos without label images. Fix: give a folder that "
            f"contains {_LABELED}."
        )


def _check_photos_exist(image_folder: Path, keys: Sequence[str], images: dict[str, Path], source: str) -> None:
    missing = [key for key in keys if key not in images]
    if missing:
        is_form = all(Path(key.split()[0]).stem in images for key in missing)
        names = "write one name a line, without folder, ending and second column"
        fix = names if is_form else "add the photos, or correct these names"
        raise DataError(
            f"{source}: {len(missing)} of {len(keys)} photos are not in {image_folder}: {some(missing, 5)}. Fix: {fix}."
        )


def _check_unique(keys: Sequence[str], where: Path) -> None:
    twice = sorted(key for key, count in Counter(keys).items() if count > 1)
    if twice:
        raise DataError(f"{where}: {len(twice)} photos occur twice: {some(twice, 5)}. Fix: list each photo once.")


def _subfolders(folder: Path, depth: int = 1) -> list[Path]:
    """Returns the folders in a folder, down to a depth, sorted by path."""
    with access_named(folder):
        here = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return here + [path for one in here for path in _subfolders(one, depth - 1)] if depth > 1 else here


def _is_cityscapes_photo(name: str) -> bool:
    return name.lower().endswith(_CITYSCAPES_PHOTO.lower())


def _by_lower_name(folder: Path) -> dict[str, Path]:
    """Returns the files in a folder by lowercase name; {} without the folder."""
    with access_named(folder):
        files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return {normalize_name(path.name).lower(): path for path in files}


def _is_photo(path: Path) -> bool:
    with access_named(path):
        return path.is_file() and PHOTOS.stem(path) is not None
