"""Reads and writes PNG and TIFF images as volumes of one plane.

The columns of a picture are x, and its rows are y from top to bottom. The voxel size is 1 mm.
"""

from pathlib import Path

import nibabel
import numpy as np
from PIL import Image

from mtf_imaging.data.formats.pillow_files import PILLOW_ERRORS, open_picture_file
from mtf_imaging.data.listing.image_formats import PNG, TIFF
from mtf_imaging.errors import DataError

_ROWS_POINT_DOWN = np.diag([1.0, -1.0, 1.0, 1.0])


def is_picture(path: Path) -> bool:
    """Returns whether a file name has the ending of a PNG or TIFF file."""
    return PNG.stem(path) is not None or TIFF.stem(path) is not None


def open_picture(path: Path, num_channels: int) -> nibabel.Nifti1Image:
    """Reads a PNG or TIFF file.

    Args:
      path: the file.
      num_channels: the expected number of channels. The palette of a picture is applied only if there are several.

    Returns:
      An image `[x, y, 1]` or `[x, y, 1, channels]` in memory.

    Raises:
      DataError: the file is damaged, has another format, has several pages or does not fit into memory.
    """
    try:
        with open_picture_file(path) as picture:
            pages = getattr(picture, "n_frames", 1)
            if pages == 1:
                picture = picture.convert("RGB") if picture.mode == "P" and num_channels > 1 else picture
                array = np.asarray(picture)
    except DataError:
        raise
    except PILLOW_ERRORS as error:
        raise DataError(
            f"{path}: cannot be read as an image ({error}). Fix: fetch the file again, or store integers of 8 or 16 "
            "bits, with one file per channel."
        ) from error
    if pages > 1:
        raise DataError(f"{path}: has {pages} pages, not one. Fix: store one picture per file, or convert it to NIfTI.")
    array = array.astype(np.uint8) if array.dtype == bool else array
    return nibabel.Nifti1Image(np.swapaxes(array, 0, 1)[:, :, np.newaxis], _ROWS_POINT_DOWN, dtype=array.dtype)


def write_picture(path: Path, labels: np.ndarray) -> None:
    """Writes labels, uint8 `[x, y, 1]` in stored axes, as a PNG or TIFF file.

    Raises:
      DataError: the labels have several planes.
    """
    if labels.shape[2:] != (1,):
        raise DataError(
            f"{path}: labels of shape {labels.shape} do not fit into a picture of one plane. "
            "Fix: write a .nii or .nii.gz file."
        )
    Image.fromarray(np.ascontiguousarray(labels[:, :, 0].T)).save(path)
