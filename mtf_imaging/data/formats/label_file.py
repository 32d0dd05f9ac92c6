"""Writes segmentations slab by slab, so that no process needs all labels of a large volume."""

from collections.abc import Iterable
from pathlib import Path

import nibabel
import numpy as np
from nibabel.openers import ImageOpener
from nibabel.volumeutils import seek_tell

from mtf_imaging.data.formats.pictures import is_picture, write_picture
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import is_zarr
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path


def write_label_slabs(path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry) -> None:
    """Writes a segmentation in the geometry of its volume.

    The file has the affine, shape, axis order, units and codes of the volume's file, and labels as uint8. If that file
    has several channels, the segmentation has no axis for them. The write is atomic: the file gets its name only when
    it is complete.

    Args:
      path: a .nii or .nii.gz file or .ome.zarr folder to write or replace; for a volume of one plane, also a .png, .tif
        or .tiff file.
      slabs: the labels, uint8 `[x, y, z]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.

    Raises:
      DataError: the shapes of the labels and the volume differ.
    """
    if is_picture(Path(path)):
        _write_picture(path, slabs, geometry)
        return
    if is_zarr(Path(path)):
        from mtf_imaging.data.formats.ome_zarr.write import write_zarr_labels  # takes time to import

        write_zarr_labels(path, slabs, geometry)
        return
    image = _empty_image(geometry)
    with atomic_path(path) as temporary, ImageOpener(temporary, mode="wb") as file:
        image.header.write_to(file)
        seek_tell(file, image.header.get_data_offset(), write0=True)
        num_planes = 0
        for slab in slabs:
            stored = geometry.to_stored(slab)
            if stored.shape[:2] != geometry.stored_shape[:2]:
                raise _wrong_shape(path, slab.shape, geometry)
            for plane in np.moveaxis(stored, 2, 0):
                file.write(plane.tobytes(order="F"))
            num_planes += stored.shape[2]
        if num_planes != geometry.stored_shape[2]:
            raise _wrong_shape(path, _canonical_shape(geometry, num_planes), geometry)


def _empty_image(geometry: Geometry) -> nibabel.Nifti1Image:
    """Returns an image with the header of a segmentation, and without voxels in memory."""
    header = geometry.header.copy()
    header.set_data_dtype(np.uint8)
    header["cal_min"] = header["cal_max"] = 0  # the display window of a CT would hide labels
    shape = header.get_data_shape()
    if np.prod(shape) != np.prod(geometry.stored_shape):
        shape = geometry.stored_shape
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    image = image_class(np.broadcast_to(np.uint8(0), shape), geometry.label_affine, header)
    image.update_header()
    image.header.set_slope_inter(1, 0)  # an image has none before it is written
    return image


def _write_picture(path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry) -> None:
    labels = np.concatenate([geometry.to_stored(slab) for slab in slabs], axis=2)
    if labels.shape != geometry.stored_shape:
        raise _wrong_shape(path, geometry.to_canonical(labels).shape, geometry)
    with atomic_path(path) as temporary:
        write_picture(temporary, labels)


def _canonical_shape(geometry: Geometry, num_planes: int) -> tuple[int, ...]:
    """Returns the shape of labels with another number of planes along the last stored axis."""
    shape = [*geometry.shape]
    shape[geometry.plane_order.axis] = num_planes
    return tuple(shape)


def _wrong_shape(path: str | Path, shape: tuple[int, ...], geometry: Geometry) -> DataError:
    return DataError(
        f"{path}: the labels have shape {shape}, but the volume has shape {geometry.shape} (x, y, z). "
        "Fix: give labels in the canonical axes of the volume."
    )
