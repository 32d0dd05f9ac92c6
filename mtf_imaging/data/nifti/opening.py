"""Opens images and decides where their voxels lie, even if the header lacks that."""

import dataclasses
from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.nifti.image_file import check_room, is_compressed, open_image
from mtf_imaging.data.nifti.made_geometry import MadeGeometry
from mtf_imaging.data.nifti.pictures import is_picture, open_picture
from mtf_imaging.data.nifti.spacing_table import SpacingTable
from mtf_imaging.data.nifti.voxel_values import warn_once
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named

# In voxels. Rounding in headers stays below it, and any meaningful difference in orientation or position exceeds it.
_SAME_PLACE = 0.5


def open_file(path: Path, channels: tuple[str, ...] | None = None) -> tuple[nibabel.Nifti1Image, Geometry]:
    """Reads the header of a file; the geometry is not corrected.

    Args:
      path: a .nii, .nii.gz, .png, .tif or .tiff file.
      channels: the names of the channels that the file must have along its fourth axis; None for a single volume.

    Raises:
      DataError: the file is missing, damaged, of another format or has another number of channels, or its affine is
        singular or not finite.
    """
    with access_named(path):
        if not path.is_file():
            raise DataError(f"{path}: this file does not exist. Fix: check the path.")
    if is_picture(path):
        image = open_picture(path, len(channels or ()))
        _check_shape(image.shape, path, channels)
        return image, Geometry(image.header.copy(), image.affine)
    image = open_image(path)
    if is_compressed(path) != path.name.endswith(".gz"):
        is_plain = path.name.endswith(".gz")
        what = "not compressed, but its name ends" if is_plain else "compressed, but its name does not end"
        warn_once(f"{path}: this file is {what} in .gz; it is read by its content.")
    dtype = image.get_data_dtype()
    if dtype.kind not in "iuf":
        raise DataError(
            f"{path}: voxels are of type {dtype}, not plain numbers. Fix: store one number (HU or label) per voxel."
        )
    _check_shape(image.shape, path, channels)
    check_room(image, path)
    affine = np.asarray(image.affine, np.float64)
    if not np.all(np.isfinite(affine)) or _is_flat(affine):
        raise DataError(f"{path}: the affine {affine[:3].tolist()} does not define the axes. Fix: repair the header.")
    return image, Geometry(image.header.copy(), affine)


def _check_shape(shape: tuple[int, ...], path: Path, channels: tuple[str, ...] | None) -> None:
    is_volume = len(shape) >= 3 and min(shape) >= 1
    if channels is None:
        if not is_volume or any(size != 1 for size in shape[3:]):
            raise DataError(f"{path}: shape {shape} is not a single 3-D volume. Fix: store one volume per file.")
        return
    if not is_volume or any(size != 1 for size in shape[4:]):
        raise DataError(
            f"{path}: shape {shape} is neither a 3-D volume nor a stack of channels. "
            "Fix: store the axes x, y, z and, for several channels, the channels."
        )
    check_num_channels(path, shape[3] if len(shape) > 3 else 1, shape, channels)


def check_num_channels(path: Path, count: int, shape: tuple[int, ...], channels: tuple[str, ...] | None) -> None:
    """Checks that an image has the expected channels.

    Args:
      path: path of the image, for messages.
      count: the number of its channels.
      shape: its shape, for messages.
      channels: the names of the expected channels; None for a single volume.

    Raises:
      DataError: the number differs.
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
    flat = abs(np.linalg.det(affine[:3, :3])) < 1e-9
    return flat or bool(np.isnan(nibabel.io_orientation(affine)).any())  # nibabel's threshold is relative


def same_place(affine: np.ndarray, other: np.ndarray, shape: tuple[int, int, int]) -> bool:
    """Returns whether two affines agree on the corners of a volume, within half of the smallest voxel side."""
    corners = np.stack(np.meshgrid(*((0, n - 1) for n in shape)), axis=-1).reshape(-1, 3)
    moved = nibabel.affines.apply_affine(affine, corners) - nibabel.affines.apply_affine(other, corners)
    return bool(np.linalg.norm(moved, axis=1).max() <= _SAME_PLACE * min(nibabel.affines.voxel_sizes(other)))


def why_lost(geometry: Geometry) -> str | None:
    """Returns the reason why a header does not define the axes, or None if it does."""
    if isinstance(geometry, MadeGeometry):
        return geometry.doubt
    if np.allclose(geometry.affine, np.eye(4)):
        return "its affine is the identity and does not define the axes"
    if not geometry.header["sform_code"] and not geometry.header["qform_code"]:
        return "it has no affine that defines the axes (sform and qform codes are 0)"
    return None


def with_known_size(
    geometry: Geometry, path: Path, known: SpacingTable, turned: bool
) -> tuple[Geometry, str, tuple[str, ...]]:
    """Returns the geometry with the voxel size of the table or the header, its description, and related settings."""
    sizes, settings = known.lookup(path), ()
    source, origin = f"from {known.path}", np.zeros(3)
    if isinstance(geometry, MadeGeometry):  # only the directions of the axes are in doubt
        origin = geometry.affine[:3, 3]
        if sizes is None:
            sizes, source = geometry.stored_spacing, "from its metadata"
    if sizes is None:
        pixdim = [abs(float(mm)) for mm in geometry.header["pixdim"][1:4]]
        sizes = [mm if np.isfinite(mm) and mm > 0 else 1.0 for mm in pixdim]
        source = (
            "from its pixdim; spacing and all results in mm depend on this size. "
            f"Fix: give the true size in a spacing_table{known.missing_row(path)}"
        )
        settings = ("spacing_table",)
    signs = (-1, -1, 1) if turned else (1, 1, 1)
    size = " x ".join(f"{mm:g}" for mm in sizes)
    affine = np.diag([*np.multiply(signs, sizes), 1.0])
    affine[:3, 3] = signs * origin
    return dataclasses.replace(geometry, affine=affine), f"voxels of {size} mm, {source}", settings
