"""Opens NIfTI, PNG and TIFF files."""

from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.formats.nifti.header_checks import warn_of_conflicts
from mtf_imaging.data.formats.nifti.image_file import check_room, is_compressed, open_image
from mtf_imaging.data.formats.pictures import is_picture, open_picture
from mtf_imaging.data.images.geometry import Geometry, affine_in_mm
from mtf_imaging.data.images.lost_geometry import why_lost
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named


def open_file(path: Path, channels: tuple[str, ...] | None = None) -> tuple[nibabel.Nifti1Image, Geometry]:
    """Reads the header of a file; the geometry is not corrected.

    Args:
      path: a .nii, .nii.gz, .png, .tif or .tiff file.
      channels: the names of the channels that the file must have along its fourth axis, or along its fifth axis as in
          ITK vector images; None for a single volume.

    Raises:
      DataError: the file is missing, damaged, of another format or has another number of channels, or its affine is
        singular or not finite.
    """
    with reading_named(path):
        if not path.is_file():
            raise DataError(f"{path}: this file does not exist. Fix: check the path.")
    if is_picture(path):
        image = open_picture(path, len(channels or ()))
        _check_shape(image.shape, path, channels)
        return image, Geometry(image.header.copy(), image.affine)
    image = open_image(path)
    if is_compressed(path) != path.name.lower().endswith(".gz"):
        is_plain = path.name.lower().endswith(".gz")
        what = "not compressed, but its name ends" if is_plain else "compressed, but its name does not end"
        warn_once(f"{path}: this file is {what} in .gz; it is read by its content.")
    dtype = image.get_data_dtype()
    if dtype.kind not in "iuf":
        raise DataError(
            f"{path}: voxels are of type {dtype}, not plain numbers. Fix: store one number (HU or label) per voxel."
        )
    _check_shape(image.shape, path, channels)
    check_room(image, path)
    affine = affine_in_mm(image.header)
    if not np.all(np.isfinite(affine)) or _is_flat(affine):
        raise DataError(f"{path}: the affine {affine[:3].tolist()} does not define the axes. Fix: repair the header.")
    geometry = Geometry(image.header.copy(), affine)
    if not why_lost(geometry):
        warn_of_conflicts(geometry, path)
    return image, geometry


def _check_shape(shape: tuple[int, ...], path: Path, channels: tuple[str, ...] | None) -> None:
    is_volume = len(shape) >= 3 and min(shape) >= 1
    if channels is None:
        if not is_volume or any(size != 1 for size in shape[3:]):
            raise DataError(f"{path}: shape {shape} is not a single 3-D volume. Fix: store one volume per file.")
        return
    counts = [size for size in shape[3:5] if size != 1] or [1]
    if not is_volume or any(size != 1 for size in shape[5:]) or len(counts) > 1:
        raise DataError(
            f"{path}: shape {shape} is neither a 3-D volume nor a stack of channels. "
            "Fix: store the axes x, y, z and, for several channels, the channels."
        )
    check_num_channels(path, counts[0], shape, channels)


def check_num_channels(path: Path, count: int, shape: tuple[int, ...], channels: tuple[str, ...] | None) -> None:
    """Checks that an image has the expected channels.

    Args:
      path: path of the image, for messages.
      count: the number of its channels.
      shape: its shape, for messages.
      channels: the names of the expected channels; None for a single volume.

    Raises:
      DataError: the number of channels differs.
    """
    if channels is None and count != 1:
        raise DataError(
            f"{path}: has {count} channels of shape {shape}, but a single volume is needed. "
            "Fix: store one channel per image."
        )
    if channels is not None and count != len(channels):
        raise DataError(
            f"{path}: has {count} channel(s) (shape {shape}), but dataset.json names {len(channels)}: "
            f"{', '.join(channels)}. Fix: name every channel in dataset.json, or store these channels."
        )


def _is_flat(affine: np.ndarray) -> bool:
    """Returns whether the three axes of an affine are linearly dependent."""
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    flat = min(lengths) == 0 or abs(np.linalg.det(affine[:3, :3] / lengths)) < 1e-9
    return flat or bool(np.isnan(nibabel.io_orientation(affine)).any())  # nibabel's threshold is relative
