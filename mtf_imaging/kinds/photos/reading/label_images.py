"""Reads photos and label images, and writes label images as palette PNG files."""

from pathlib import Path

import numpy as np
from PIL import Image

from mtf_imaging.data.formats.pillow_files import read_pixels
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.pixels.photo_files import WHOLE, Region, open_photo, photo_size, raw_mode, read_photo, region_box
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.kinds.photos.description import NUM_VALUES, PhotoDescription, palette_color
from mtf_imaging.kinds.photos.reading.folders import Photo

_IGNORED_COLOR = palette_color(255)
_COLOR_BANDS = {"R", "G", "B", "C", "Y"}
# Pillow maps gray values with fewer than 8 bits to 0..255.
_STEPS = {"L;2": 85, "L;4": 17}


def read_label_image(path: str | Path, description: PhotoDescription, region: Region = WHOLE) -> np.ndarray:
    """Reads a label image: a palette PNG, or a grayscale PNG.

    The values are labels, unless a palette has the colors of the classes in another order: then the colors decide.

    Args:
      path: the file.
      description: the classes.
      region: the rows and columns to return. Only their values are checked.

    Returns:
      uint8 `[height, width]` of labels and `ignore_label`.

    Raises:
      DataError: the file is missing or damaged, has colors, or contains a value that is not a class label.
    """
    path = Path(path)
    with open_photo(path) as picture:
        if picture.mode != "P" and set(picture.getbands()) & _COLOR_BANDS:
            raise DataError(
                f"{path}: is a color image (Pillow's mode {picture.mode}), not a label image. "
                "Fix: store the label of each pixel as a gray value or a palette index."
            )
        table = _label_table(description)
        if picture.mode == "P":
            table = _by_color(path, table, description, picture.palette.palette)
        step = _STEPS.get(raw_mode(picture), 1)
        stored = read_pixels(picture, region_box(picture, region))
    if stored.ndim != 2:
        raise DataError(
            f"{path}: has {stored.shape[2]} channels, not one. Fix: store the label of each pixel as a gray value."
        )
    values = stored.astype(np.int64) // step
    labels = table[np.clip(values, 0, NUM_VALUES - 1)]
    is_unknown = (labels < 0) | (values != np.clip(values, 0, NUM_VALUES - 1))
    if is_unknown.any():
        unknown = np.unique(values[is_unknown])
        shown = ", ".join(map(str, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
        raise DataError(
            f"{path}: contains the label value(s) {shown} in {is_unknown.sum()} pixels, but there are "
            f"{len(description.classes)} classes, with the labels 0..{len(description.classes) - 1}, and the "
            f"ignore_label {description.ignore_label}. Fix: name all classes in classes.json, or correct the label "
            "image."
        )
    return labels.astype(np.uint8)


def read_labeled_photo(
    photo: Photo, description: PhotoDescription, region: Region = WHOLE
) -> tuple[np.ndarray, np.ndarray]:
    """Reads a photo and its label image.

    Args:
      photo: the files; it has a label image.
      description: the classes.
      region: the rows and columns to return.

    Returns:
      The photo, uint8 `[height, width, 3]`, and the labels, uint8 `[height, width]`.

    Raises:
      DataError: a file is invalid, or the two have different sizes.
    """
    assert photo.labels is not None
    size, label_size = photo_size(photo.image), photo_size(photo.labels)
    if size != label_size:
        raise DataError(
            f"{photo.image}: is {size[1]} pixels wide and {size[0]} high, but its label image {photo.labels} is "
            f"{label_size[1]} wide and {label_size[0]} high. Fix: make the sizes equal."
        )
    return read_photo(photo.image, region), read_label_image(photo.labels, description, region)


def write_label_image(path: str | Path, labels: np.ndarray, description: PhotoDescription) -> None:
    """Writes labels atomically as a palette PNG, which `read_label_image` can read with the same description.

    If the description has `values`, the file stores these values; for a class with several values, the first one.

    Args:
      path: the file.
      labels: integers `[height, width]`: labels of classes and `ignore_label`.
      description: the classes and their colors.
    """
    stored = np.arange(NUM_VALUES, dtype=np.uint8)
    colors = np.array([palette_color(value) for value in range(NUM_VALUES)], np.uint8)
    for label, color in enumerate(description.colors):
        stored[label] = description.stored_value(label)
        colors[stored[label]] = color
    colors[description.ignore_label] = _IGNORED_COLOR
    picture = Image.fromarray(stored[labels])
    picture.putpalette(colors.tobytes())
    with atomic_path(path) as temporary:
        picture.save(temporary, format="PNG")


def _by_color(path: Path, table: np.ndarray, description: PhotoDescription, palette: bytes) -> np.ndarray:
    """Returns the label of each value by its color, with a warning, if the palette contradicts `table`."""
    label_of = {**{color: label for label, color in enumerate(description.colors)}, _IGNORED_COLOR: description.ignore}
    named: dict[int, int] = {}
    for value, color in enumerate(zip(palette[::3], palette[1::3], palette[2::3], strict=False)):
        if color in label_of and label_of[color] not in named.values():  # later entries repeat black
            named[value] = label_of[color]
    moved = [value for value, label in named.items() if table[value] != label]
    if not moved or len(named) < 2 or len(label_of) <= len(description.colors):  # or two classes have one color
        return table
    warn_once(
        f"{path}: its palette has the colors of the classes in another order, such as that of the label "
        f"{named[moved[0]]} for the value {moved[0]}; the colors decide about its labels."
    )
    by_color = np.full(NUM_VALUES, -1)
    by_color[[*named]] = [*named.values()]
    return by_color


def _label_table(description: PhotoDescription) -> np.ndarray:
    """Returns the label of each stored value, int64 `[256]`; -1 marks values that must not occur."""
    if description.values:
        table = np.full(NUM_VALUES, description.ignore_label)
        for value, label in description.values:
            table[value] = label
        return table
    table = np.full(NUM_VALUES, -1)
    table[: len(description.classes)] = np.arange(len(description.classes))
    table[description.ignore_label] = description.ignore_label
    return table
