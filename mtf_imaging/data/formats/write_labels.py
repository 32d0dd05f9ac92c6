"""Writes segmentations slab by slab, so that no process needs all labels of a large volume."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.dicom.label_codes import LabelCodes
from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.formats.nifti.write import write_nifti_labels
from mtf_imaging.data.formats.pictures import is_picture, write_picture
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import is_dicom_seg, is_itk, is_zarr
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.provenance.provenance import Provenance


def check_writable(path: Path, volume: Path) -> None:
    """Checks that a segmentation can be written in a format, before it is computed.

    Args:
      path: the file or folder to write.
      volume: the volume of the segmentation.

    Raises:
      DataError: a package that writes the format is missing, or the volume is not a DICOM series, which DICOM-SEG
          requires.
    """
    if is_dicom_seg(path):
        from mtf_imaging.data.formats.dicom.segmentation import check_series

        check_series(path, volume)
    elif is_itk(path):
        from mtf_imaging.data.formats.itk.library import import_simpleitk

        import_simpleitk(path)


def write_label_slabs(
    path: str | Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    segments: Mapping[str, LabelCodes] | None = None,
    provenance: Provenance | None = None,
) -> None:
    """Writes a segmentation in the geometry of its volume.

    A NIfTI file has the affine, shape, axis order, units and codes of the volume's file, and labels as uint8. If that
    file has several channels, the segmentation has no axis for them. The write is atomic: the file gets its name only
    when it is complete.

    Args:
      path: a .nii, .nii.gz, .nrrd or .mha file or .ome.zarr folder to write or replace; for a volume of one plane, also
        a .png, .tif or .tiff file; for a DICOM series, also a .dcm file.
      slabs: the labels, uint8 `[x, y, z]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.
      segments: the codes of the labels 1, 2, ..., by label name; required for a .dcm file.
      provenance: the provenance to store in the file; None for none. Pictures store none.

    Raises:
      DataError: the shapes of the labels and the volume differ, or a package that writes the format is missing.
    """
    if is_picture(Path(path)):
        _write_picture(path, slabs, geometry)
    elif is_zarr(Path(path)):
        from mtf_imaging.data.formats.ome_zarr.write import write_zarr_labels  # takes time to import

        write_zarr_labels(path, slabs, geometry, provenance)
    elif is_itk(Path(path)):
        from mtf_imaging.data.formats.itk.write import write_itk_labels  # an optional package

        write_itk_labels(path, slabs, geometry, provenance)
    elif is_dicom_seg(Path(path)):
        from mtf_imaging.data.formats.dicom.segmentation import write_dicom_seg  # an optional package

        write_dicom_seg(path, slabs, geometry, segments or {}, provenance)
    else:
        write_nifti_labels(path, slabs, geometry.with_note(provenance.note if provenance else ""))


def _write_picture(path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry) -> None:
    stored = [geometry.to_stored(slab) for _, slab in numbered_slabs(path, slabs, geometry)]
    with atomic_path(path) as temporary:
        write_picture(temporary, np.concatenate(stored, axis=2))
