"""Reads photos, and lists the files in a photo folder."""

from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from mtf_imaging.data.formats.pillow_files import open_picture_file, read_pixels
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import ImageFormat
from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import Fault

Region = tuple[slice, slice]  # the rows and columns to read

WHOLE: Region = (slice(None), slice(None))
_ENDINGS = (".jpeg", ".jpg", ".png", ".tiff", ".tif")
PHOTOS = ImageFormat("photo", (*_ENDINGS, *map(str.upper, _ENDINGS)), ".jpg, .png or .tif")


def files_by_stem(folder: Path, image_format: ImageFormat) -> dict[str, Path]:
    """Returns the files in a folder, by name without the ending."""
    files: dict[str, Path] = {}
    for path in image_files(folder, image_format, subfolders=False):
        stem = normalize_name(image_format.stem(path))
        if stem in files:
            what = f"has the name of {files[stem].name} with another ending, so it has the same key"
            raise DataError(f"{path}: {what}. Fix: rename one of them.")
        files[stem] = path
    return files


def photo_size(path: str | Path) -> tuple[int, int]:
    """Returns the height and width of a photo or a label image, and reads only the header of the file.

    Raises:
      DataError: the file is missing, is damaged or has the wrong format.
    """
    with open_photo(Path(path)) as picture:
        return picture.height, picture.width


def read_photo(path: str | Path, region: Region = WHOLE, upright: bool = False) -> np.ndarray:
    """Reads a JPEG, PNG or TIFF photo.

    Grayscale and palette images are converted to RGB. An alpha channel is dropped.

    Args:
      path: the file.
      region: the rows and columns to return.
      upright: whether to turn the photo as its EXIF orientation says. A label image has the size of the stored photo,
        so photos with labels are not turned.

    Returns:
      uint8 `[height, width, 3]`.

    Raises:
      DataError: the file is missing, is damaged, or has the wrong format, several pages or more than 8 bits per
        channel.
    """
    path = Path(path)
    with open_photo(path) as picture:
        if _has_more_than_8_bits(picture):
            what = f"has more than 8 bits per channel (Pillow's mode {picture.mode})"
            raise Fault(what, "convert it to 8 bits per channel")
        turned = ImageOps.exif_transpose(picture) if upright else picture
        return read_pixels(turned, region_box(turned, region), "RGB")


def open_photo(path: Path) -> AbstractContextManager[Image.Image]:
    """Opens an image; an error in the block names the file."""
    return open_picture_file(path, "fetch it again, or store it as JPEG, PNG or TIFF")


def region_box(picture: Image.Image, region: Region) -> tuple[int, int, int, int]:
    """Returns the region of a picture as (left, top, right, bottom)."""
    (top, bottom, _), (left, right, _) = region[0].indices(picture.height), region[1].indices(picture.width)
    return left, top, right, bottom


def raw_mode(picture: Image.Image) -> str:
    """Returns the storage mode of a file, such as "RGB;16B"; "" if Pillow does not report it."""
    arguments = picture.tile[0][3] if getattr(picture, "tile", None) else ""
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _has_more_than_8_bits(picture: Image.Image) -> bool:
    """Returns whether a channel has more than 8 bits, even if Pillow drops some of them, from the raw mode."""
    return picture.mode[0] in "IF" or ";16" in raw_mode(picture)
