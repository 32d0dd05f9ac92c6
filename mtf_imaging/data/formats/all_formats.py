"""The formats of volumes, segmentations and maps: one table with the functions of each format.

To add a format, add its endings to `listing/image_formats.py` and a row here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtf_imaging.data.formats.dicom.label_codes import LabelCodes
from mtf_imaging.data.formats.dicom.segmentation_reading import algorithm_parameters
from mtf_imaging.data.formats.dicom.segmentation_writing import check_series, write_dicom_seg
from mtf_imaging.data.formats.dicom.series import open_series
from mtf_imaging.data.formats.itk.reading import open_itk
from mtf_imaging.data.formats.itk.writing import write_itk_labels
from mtf_imaging.data.formats.nifti.reading import open_nifti, read_header
from mtf_imaging.data.formats.nifti.writing import write_nifti_labels, write_nifti_maps
from mtf_imaging.data.formats.ome_zarr.image import open_ome_zarr
from mtf_imaging.data.formats.ome_zarr.writing import write_zarr_labels, write_zarr_maps
from mtf_imaging.data.formats.packages import import_simpleitk
from mtf_imaging.data.formats.pictures import open_picture, write_picture
from mtf_imaging.data.images.geometry import Geometry, check_orthogonal
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.listing.image_formats import MGH, NIFTI, PNG, TIFF, is_dicom_seg, is_itk, is_zarr
from mtf_imaging.data.listing.itk_headers import PROVENANCE_KEY, read_itk_header
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import FIELD
from mtf_imaging.files.reading import Fault, faults_named

Opened = tuple[list[Stored], Geometry]


def open_stored(path: Path, channels: tuple[str, ...] | None = None) -> Opened:
    """Reads the header of an image; its geometry is not corrected.

    Args:
      path: a .nii, .nii.gz, .mgz, .mgh, .png, .tif, .tiff, .nrrd, .nhdr, .mha or .mhd file, a .zarr folder, or a
        folder of DICOM files.
      channels: the names of the channels that the image must have; None for a single volume.

    Returns:
      The stored numbers of each channel, and the geometry.

    Raises:
      DataError: the image is missing, damaged, of another format or has another number of channels, or its geometry
        does not define perpendicular axes.
    """
    count = len(channels or (None,))
    with faults_named(path):
        if _is_picture(path):
            stored, geometry = open_picture(path, count)
        else:
            stored, geometry = format_of(path).open(path)
        if len(stored) != count:
            needed = f"{count} are needed: {', '.join(channels) if channels else 'a single volume'}"
            fix = (
                "name all channels in dataset.json; export a mask with layers as a label map, with one label per voxel"
            )
            raise Fault(f"has {len(stored)} channel(s) of shape {stored[0].shape}, but {needed}", fix)
        check_orthogonal(geometry.affine)
    return stored, geometry


def check_writable(path: Path, volume: Path) -> None:
    """Checks that a segmentation can be written in a format, before it is computed.

    Args:
      path: the file or folder to write.
      volume: the volume of the segmentation.

    Raises:
      DataError: a package that writes the format is missing, or the volume is not a DICOM series, which DICOM-SEG
        requires.
    """
    format_of(path).check(path, volume)


def write_label_slabs(
    path: str | Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    segments: Mapping[str, LabelCodes] | None = None,
    provenance: Provenance | None = None,
    stored: Mapping[int, int] | None = None,
) -> None:
    """Writes a segmentation in the geometry of its volume, slab by slab, so that no process needs all of its labels.

    A NIfTI file has the affine, shape, axis order, units and codes of the volume's file, and labels as uint8, or as
    uint16 for values above 255. If that file has several channels, the segmentation has no axis for them. The write is
    atomic: the file gets its name only when it is complete.

    Args:
      path: a .nii, .nii.gz, .mgz, .nrrd or .mha file or .ome.zarr folder to write or replace; for a volume of one
        plane, also a .png, .tif or .tiff file; for a DICOM series, also a .dcm file.
      slabs: the labels, uint8 `[x, y, z]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.
      segments: the codes of the labels 1, 2, ..., by label name; required for a .dcm file.
      provenance: the provenance to store in the file; None for none. Pictures store none.
      stored: `Description.stored`, for the values of the labels in the file. A .dcm file has numbers of segments.

    Raises:
      DataError: the shapes of the labels and the volume differ, or a package that writes the format is missing.
    """
    path = Path(path)
    codes = {"segments": segments} if is_dicom_seg(path) else {}
    if stored and not codes:
        values = np.zeros(max(stored) + 1, np.min_scalar_type(max(stored.values())))
        values[[*stored]] = [*stored.values()]
        slabs = (values[slab] for slab in slabs)
    format_of(path).write(path, slabs, geometry, provenance, **codes)


def write_map_slabs(
    path: str | Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    names: Sequence[str],
    provenance: Provenance | None = None,
) -> None:
    """Writes one or more maps, such as probabilities, in the geometry of their volume, as float32; the write is atomic.

    Args:
      path: a .nii or .nii.gz file or .ome.zarr folder to write or replace. A single map is a 3-D image. Several maps
        are the fourth axis of a NIfTI file, or the first axis of an OME-Zarr image.
      slabs: the values, float32 `[x, y, z, maps]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.
      names: the names of the maps.
      provenance: the provenance to store in the file; None for none.

    Raises:
      DataError: the shapes of the maps and the volume differ.
    """
    path = Path(path)
    format_of(path).write_maps(path, slabs, geometry, names, provenance)


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
    own = format_of(path)
    is_other = own is FORMATS[-1] and NIFTI.stem(path) is None
    return None if own.provenance is None or is_other else own.provenance(path)


def format_of(path: Path) -> "FileFormat":
    """Returns the format of an image; NIfTI for files with the ending of no format."""
    return next(each for each in FORMATS if each.has(path))


def _is_picture(path: Path) -> bool:
    return PNG.stem(path) is not None or TIFF.stem(path) is not None


def _zarr_provenance(folder: Path) -> str:
    """Returns the provenance in the attributes of an image of OME-Zarr 0.5, the version that this program writes."""
    fields = read_object(folder / "zarr.json") if (folder / "zarr.json").is_file() else {}
    for key in ("attributes", "mtf_imaging", FIELD):
        found = fields.get(key)
        if not isinstance(found, dict):
            return ""
        fields = found
    return json.dumps(fields)


def _itk_provenance(path: Path) -> str:
    header = read_itk_header(path)
    return (header.pairs if header.is_nrrd else header.fields).get(PROVENANCE_KEY, "")


def _nifti_provenance(path: Path) -> str:
    return bytes(read_header(path)["descrip"].item()).decode("ascii", "replace").strip("\0 ")


class FileFormat(NamedTuple):
    """A format of images on disk.

    Attributes:
      has: whether an image has the format, by its path.
      open: opens an image; see `open_stored`.
      write: writes a segmentation; see `write_label_slabs`.
      write_maps: writes maps; see `write_map_slabs`.
      provenance: reads the provenance in a segmentation or map, as text; None if it contains none.
      check: checks, with the path of the volume, that a segmentation can be written.
    """

    has: Callable[[Path], bool]
    open: Callable[[Path], Opened] = open_nifti
    write: Callable[..., None] = write_nifti_labels
    write_maps: Callable[..., None] = write_nifti_maps
    provenance: Callable[[Path], str] | None = None
    check: Callable[[Path, Path], object] = lambda path, volume: None


# In this order: a folder without the ending of OME-Zarr is a DICOM series, and other files are NIfTI.
FORMATS = (
    FileFormat(is_zarr, open_ome_zarr, write_zarr_labels, write_zarr_maps, _zarr_provenance),
    FileFormat(Path.is_dir, open_series),
    FileFormat(
        is_itk,
        open_itk,
        write_itk_labels,
        provenance=_itk_provenance,
        check=lambda path, volume: import_simpleitk(path),
    ),
    FileFormat(is_dicom_seg, write=write_dicom_seg, provenance=algorithm_parameters, check=check_series),
    FileFormat(_is_picture, open_picture, write_picture),
    FileFormat(lambda path: MGH.stem(path) is not None),
    FileFormat(lambda path: True, provenance=_nifti_provenance),
)
