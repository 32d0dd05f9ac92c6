"""Writes segmentations as NIfTI."""

from collections.abc import Iterable
from pathlib import Path

import nibabel
import numpy as np
from nibabel.openers import ImageOpener
from nibabel.volumeutils import seek_tell

from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.files.atomic import atomic_path


def write_nifti_labels(path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry) -> None:
    """Writes a segmentation as NIfTI, in the position of its volume.

    The write is atomic: the file gets its name only when it is complete.

    Args:
      path: the .nii or .nii.gz file to write or replace.
      slabs: the labels, uint8 `[x, y, z]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.

    Raises:
      DataError: the shapes of the labels and the volume differ.
    """
    image = _empty_image(geometry)
    with atomic_path(path) as temporary, ImageOpener(temporary, mode="wb") as file:
        image.header.write_to(file)
        seek_tell(file, image.header.get_data_offset(), write0=True)
        for _, slab in numbered_slabs(path, slabs, geometry):
            for plane in np.moveaxis(geometry.to_stored(slab), 2, 0):
                file.write(plane.tobytes(order="F"))


def _empty_image(geometry: Geometry) -> nibabel.Nifti1Image:
    """Returns an image with the header of a segmentation, and without voxels in memory."""
    header = geometry.header.copy()
    header.set_data_dtype(np.uint8)
    header["cal_min"] = header["cal_max"] = 0  # the display window of a CT would hide labels
    shape = header.get_data_shape()
    if np.prod(shape) != np.prod(geometry.stored_shape):
        shape = geometry.stored_shape
        header["intent_code"] = 0  # for example of vectors, whose components were the channels
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    image = image_class(np.broadcast_to(np.uint8(0), shape), geometry.label_affine, header)
    image.update_header()
    image.header.set_slope_inter(1, 0)  # an image has none before it is written
    return image
