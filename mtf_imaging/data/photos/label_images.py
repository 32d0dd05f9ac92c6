"""Reads photos and label images, and writes label images as palette PNG files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from mtf_imaging.data.photos.description import NUM_VALUES, PhotoDescription, palette_color
from mtf_imaging.data.photos.folders import Photo
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named, memory_named

Region = tuple[slice, slice]  # the rows and columns to read

WHOLE: Region = (slice(None), slice(None))
_IGNORED_COLOR = palette_color(255)
_COLOR_BANDS = {"R", "G", "B", "C", "Y"}
# Pillow maps gray values of fewer than 8 bits to 0..255.
_STEPS = {"L;2": 85, "L;4": 17}


def photo_size(path: str | Path) -> tuple[int, int]:
    """Returns the height and width of a photo or a label image, and reads only the header of the file.

    Raises:
      DataError: the file is missing, is damaged or has another format.
    """
    with _opened(Path(path)) as picture:
        return picture.height, picture.width


def read_photo(path: str | Path, region: Region = WHOLE, upright: bool = False) -> np.ndarray:
    """Reads a JPEG, PNG or TIFF photo.

    Gray photos and palettes become red, green and blue. An alpha channel is dropped.

    Args:
      path: the file.
      region: the rows and columns to return.
      upright: whether to turn the photo as its EXIF orientation says. A label image has the size of the stored photo,
        so photos with labels are not turned.

    Returns:
      uint8 `[height, width, 3]`.

    Raises:
      DataError: the file is missing, is damaged, has another format, several pages or more than 8 bits per channel.
    """
    path = Path(path)
    with _opened(path) as picture:
        if _has_more_than_8_bits(picture):
            raise DataError(
                f"{path}: has more than 8 bits per channel (Pillow's mode {picture.mode}). "
                "Fix: convert it to 8 bits per channel."
            )
        turned = ImageOps.exif_transpose(picture) if upright else picture
        # The region is cut before the conversion, so a small region of a large photo takes little memory.
        return np.asarray(turned.crop(_box(turned, region)).convert("RGB"))


def read_label_image(path: str | Path, description: PhotoDescription, region: Region = WHOLE) -> np.ndarray:
    """Reads a label image: a palette PNG, whose colors have no meaning, or a gray PNG.

    Args:
      path: the file.
      description: the classes.
      region: the rows and columns to return. Only their values are checked.

    Returns:
      uint8 `[height, width]` of labels and `ignore_label`.

    Raises:
      DataError: the file is missing or damaged, has colors, or contains a value that is not the label of a class.
    """
    path = Path(path)
    with _opened(path) as picture:
        if picture.mode != "P" and set(picture.getbands()) & _COLOR_BANDS:
            raise DataError(
                f"{path}: is a color image (Pillow's mode {picture.mode}), not a label image. "
                "Fix: store the label of each pixel as a gray value or a palette index."
            )
        step = _STEPS.get(_raw_mode(picture), 1)
        stored = np.asarray(picture.crop(_box(picture, region)))
    if stored.ndim != 2:
        raise DataError(
            f"{path}: has {stored.shape[2]} channels, not one. Fix: store the label of each pixel as a gray value."
        )
    values = stored.astype(np.int64) // step
    labels = _label_table(description)[np.clip(values, 0, NUM_VALUES - 1)]
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
      photo: the files.
      description: the classes.
      region: the rows and columns to return.

    Returns:
      The photo, uint8 `[height, width, 3]`, and the labels, uint8 `[height, width]`.

    Raises:
      DataError: a file is invalid, the photo has no label image, or the two have different sizes.
    """
    if photo.labels is None:
        raise DataError(f"{photo.image}: has no label image. Fix: use photos with label images.")
    size, label_size = photo_size(photo.image), photo_size(photo.labels)
    if size != label_size:
        raise DataError(
            f"{photo.image}: is {size[1]} pixels wide and {size[0]} high, but its label image {photo.labels} is "
            f"{label_size[1]} wide and {label_size[0]} high. Fix: make the sizes equal."
        )
    return read_photo(photo.image, region), read_label_image(photo.labels, description, region)


def write_label_image(path: str | Path, labels: np.ndarray, description: PhotoDescription) -> None:
    """Writes labels atomically as a palette PNG, which `read_label_image` reads with the same description.

    If the description has `values`, the file stores these values, and the first one of a class with several values.

    Args:
      path: the file.
      labels: integers `[height, width]`: labels of classes and `ignore_label`.
      description: the classes and their colors.

    Raises:
      DataError: the labels have another shape or contain a value that is not a label.
    """
    labels = np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: labels of shape {labels.shape} and dtype {labels.dtype} are not a label image. "
            "Fix: pass integers [height, width]."
        )
    is_class = (labels >= 0) & (labels < len(description.classes))
    unknown = np.unique(labels[~is_class & (labels != description.ignore_label)])
    if unknown.size:
        raise DataError(
            f"{path}: the labels contain {unknown[0]}, which is neither one of the {len(description.classes)} classes "
            f"nor the ignore_label {description.ignore_label}. Fix: pass only these labels."
        )
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


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Yields an open image, and converts the errors of Pillow in the block into errors that name the file."""
    try:
        with memory_named(path), access_named(path), Image.open(path) as picture:
            pages = getattr(picture, "n_frames", 1)
            if pages > 1 and picture.format != "MPO":  # the pictures after the first one of an MPO are previews
                raise DataError(f"{path}: has {pages} pages, not one. Fix: store one photo per file.")
            yield picture
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(
            f"{path}: is too large for Pillow ({error}). Fix: cut it into tiles, or raise PIL.Image.MAX_IMAGE_PIXELS."
        ) from error
    # Pillow raises SyntaxError for some damaged PNG files.
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as an image ({error}). Fix: fetch it again, or store it as JPEG, PNG or TIFF."
        ) from error


def _box(picture: Image.Image, region: Region) -> tuple[int, int, int, int]:
    """Returns the region of a picture as (left, top, right, bottom)."""
    (top, bottom, _), (left, right, _) = region[0].indices(picture.height), region[1].indices(picture.width)
    return left, top, right, bottom


def _raw_mode(picture: Image.Image) -> str:
    """Returns how a file stores its values, such as "RGB;16B"; "" if Pillow does not tell."""
    arguments = picture.tile[0][3] if getattr(picture, "tile", None) else ""
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _has_more_than_8_bits(picture: Image.Image) -> bool:
    """Returns whether a channel has more than 8 bits; Pillow drops bits of some files, but the raw mode names them."""
    return picture.mode[0] in "IF" or ";16" in _raw_mode(picture)


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
