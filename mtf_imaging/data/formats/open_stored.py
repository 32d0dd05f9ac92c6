"""Opens an image of any format: NIfTI, PNG, TIFF, OME-Zarr, NRRD, MetaImage or a folder of DICOM files."""

from pathlib import Path

from mtf_imaging.data.formats.dicom.series import open_series
from mtf_imaging.data.formats.nifti.opening import check_num_channels, open_file
from mtf_imaging.data.formats.nifti.stored_values import StoredValues
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.orthogonal import check_orthogonal
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.listing.image_formats import is_itk, is_zarr


def open_stored(path: Path, channels: tuple[str, ...] | None = None) -> tuple[list[Stored], Geometry]:
    """Reads the header of an image; its geometry is not corrected.

    Args:
      path: a .nii, .nii.gz, .png, .tif, .tiff, .nrrd, .nhdr, .mha or .mhd file, a .zarr folder, or a folder of DICOM
        files.
      channels: the names of the channels that the image must have; None for a single volume.

    Returns:
      The stored numbers of each channel, and the geometry.

    Raises:
      DataError: the image is missing, damaged, of another format or has another number of channels, or its geometry
        does not define perpendicular axes.
    """
    stored, geometry = _open(path, channels)
    check_orthogonal(geometry.affine, path)
    return stored, geometry


def _open(path: Path, channels: tuple[str, ...] | None) -> tuple[list[Stored], Geometry]:
    """Opens the image in the format that the path's ending selects."""
    if is_zarr(path):
        from mtf_imaging.data.formats.ome_zarr.numbers import open_numbers  # takes time to import

        stored, geometry = open_numbers(path)
        check_num_channels(path, len(stored), stored[0].shape, channels)
        return [*stored], geometry
    if path.is_dir():
        series = open_series(path)
        check_num_channels(path, 1, series.shape, channels)
        return [series], series.geometry
    if is_itk(path):
        from mtf_imaging.data.formats.itk.numbers import open_itk  # an optional package

        numbers, geometry = open_itk(path)
        check_num_channels(path, 1, numbers.shape, channels)
        return [numbers], geometry
    image, geometry = open_file(path, channels)
    return [StoredValues(image, path, number) for number in range(len(channels or (None,)))], geometry
