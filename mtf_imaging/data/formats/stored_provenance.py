"""Reads the provenance that segmentations and maps contain."""

import json
from pathlib import Path

from mtf_imaging.data.listing.image_formats import is_dicom_seg, is_itk, is_zarr
from mtf_imaging.data.listing.itk_headers import PROVENANCE_KEY, read_itk_header
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.provenance.runs import FIELD


def read_stored_provenance(path: Path) -> str | None:
    """Returns the provenance in a segmentation or map that this program wrote, as text.

    Args:
      path: any file or folder.

    Returns:
      The result of `Provenance.text`, or of `Provenance.note` for NIfTI and very long texts. "" if the file contains no
      provenance. None for files and folders of other formats.

    Raises:
      DataError: the file is damaged, or pydicom is missing.
    """
    if path.is_dir():
        return _of_zarr(path) if is_zarr(path) else None
    if path.name.lower().endswith((".nii", ".nii.gz")):
        from mtf_imaging.data.formats.nifti.opening import open_image  # imports NumPy

        return bytes(open_image(path).header["descrip"].item()).decode("ascii", "replace").strip("\0 ")
    if is_itk(path):
        header = read_itk_header(path)
        return (header.pairs if header.is_nrrd else header.fields).get(PROVENANCE_KEY, "")
    if is_dicom_seg(path):
        from mtf_imaging.data.formats.dicom.stored_segmentation import algorithm_parameters  # an optional package

        return algorithm_parameters(path)
    return None


def _of_zarr(folder: Path) -> str:
    """Returns the provenance in the attributes of an image of OME-Zarr 0.5, the version that this program writes."""
    fields = read_object(folder / "zarr.json") if (folder / "zarr.json").is_file() else {}
    for key in ("attributes", "mtf_imaging", FIELD):
        found = fields.get(key)
        if not isinstance(found, dict):
            return ""
        fields = found
    return json.dumps(fields)
