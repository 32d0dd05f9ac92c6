"""Reads and writes PNG and TIFF images as volumes of one plane.

The columns of a picture are x, and its rows are y from top to bottom. The voxel size is 1 mm.
"""

from collections.abc import Iterable
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image

from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.formats.pillow_files import open_picture_file, read_pixels
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.stored import Stored, WholePlanes
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.provenance.provenance import Provenance

_ROWS_POINT_DOWN = np.diag([1.0, -1.0, 1.0, 1.0])
_FIX = "fetch the file again, or store integers of 8 or 16 bits, with one file per channel"


def open_picture(path: Path, num_channels: int = 1) -> tuple[list[Stored], Geometry]:
    """Reads a PNG or TIFF file.

    Args:
      path: the file.
      num_channels: the expected number of channels. The palette of a picture is applied only if there are several.

    Raises:
      DataError: the file is damaged, has another format, has several pages or does not fit into memory.
    """
    with open_picture_file(path, _FIX) as picture:
        array = read_pixels(picture, mode="RGB" if picture.mode == "P" and num_channels > 1 else "")
    array = np.swapaxes(array.astype(np.uint8) if array.dtype == bool else array, 0, 1)[:, :, np.newaxis]
    header = nibabel.Nifti1Image(array, _ROWS_POINT_DOWN, dtype=array.dtype).header
    channels = np.moveaxis(array, 3, 0) if array.ndim > 3 else [array]
    stored = [Stored(path, each.shape, each.dtype, lambda each=each: WholePlanes(lambda: each)) for each in channels]
    return stored, Geometry(header.copy(), _ROWS_POINT_DOWN)


def write_picture(
    path: Path, slabs: Iterable[np.ndarray], geometry: Geometry, provenance: Provenance | None = None
) -> None:
    """Writes a segmentation of one plane as a PNG or TIFF file, without its provenance; see `write_label_slabs`.

    Raises:
      DataError: the volume has several planes.
    """
    del provenance  # these files have no place for it
    labels = np.concatenate([geometry.to_stored(slab) for _, slab in numbered_slabs(path, slabs, geometry)], axis=2)
    if labels.shape[2] != 1:
        what = f"labels of shape {labels.shape} do not fit into a picture of one plane"
        raise DataError(f"{path}: {what}. Fix: write a .nii or .nii.gz file.")
    with atomic_path(path) as temporary:
        Image.fromarray(np.ascontiguousarray(labels[:, :, 0].T)).save(temporary)
