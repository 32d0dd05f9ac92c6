"""Writes segmentations slab by slab, so that no process needs all labels of a large volume."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.formats.nifti.write import write_nifti_labels
from mtf_imaging.data.formats.pictures import is_picture, write_picture
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import is_zarr
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
    elif is_zarr(Path(path)):
        from mtf_imaging.data.formats.ome_zarr.write import write_zarr_labels  # takes time to import

        write_zarr_labels(path, slabs, geometry)
    else:
        write_nifti_labels(path, slabs, geometry)


def _write_picture(path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry) -> None:
    stored = [geometry.to_stored(slab) for _, slab in numbered_slabs(path, slabs, geometry)]
    with atomic_path(path) as temporary:
        write_picture(temporary, np.concatenate(stored, axis=2))
