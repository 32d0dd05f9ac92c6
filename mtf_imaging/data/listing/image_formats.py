"""Image formats, which are recognized by the endings of file and folder names."""

from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.listing.dicom_files import holds_dicom
from mtf_imaging.files.reading import access_named


@dataclass(frozen=True)
class ImageFormat:
    """A file format, or several formats that may be mixed in one folder.

    Attributes:
      name: its name in messages.
      endings: the endings of its files or folders, the longest first.
      shown: the endings to show in messages.
      has_dicom: whether a folder of DICOM files, whose name has no ending, is an image, too.
    """

    name: str
    endings: tuple[str, ...]
    shown: str
    has_dicom: bool = False

    @property
    def any_ending(self) -> str:
        """The endings for messages, for example ".nii or .nii.gz"."""
        *most, last = reversed(self.endings)
        return f"{', '.join(most)} or {last}" if most else last

    def stem(self, path: Path) -> str | None:
        """Returns the name of an image in this format without its ending, or None for any other file or folder.

        The ending may be in upper case, as in names from Windows and scanners.
        """
        for ending in self.endings:
            if path.name[-len(ending) :].lower() == ending:
                return path.name[: -len(ending)]
        return path.name if self.has_dicom and holds_dicom(path) else None


NIFTI = ImageFormat("NIfTI", (".nii.gz", ".nii"), ".nii[.gz]")
PNG = ImageFormat("PNG", (".png",), ".png")
TIFF = ImageFormat("TIFF", (".tiff", ".tif"), ".tif[f]")
OME_ZARR = ImageFormat("OME-Zarr", (".ome.zarr", ".zarr"), ".ome.zarr")
NRRD = ImageFormat("NRRD", (".nhdr", ".seg.nrrd", ".nrrd"), ".nrrd")
MGH = ImageFormat("FreeSurfer", (".mgz", ".mgh"), ".mgz")
METAIMAGE = ImageFormat("MetaImage", (".mhd", ".mha"), ".mha")
DICOM_SEG = ImageFormat("DICOM-SEG", (".dcm",), ".dcm")
FORMATS = (NIFTI, PNG, TIFF, OME_ZARR, NRRD, METAIMAGE, MGH)
MIXED = (METAIMAGE, MGH, NRRD, OME_ZARR, NIFTI)  # a folder of images may mix these formats and DICOM
_NAMES = "NIfTI, OME-Zarr, FreeSurfer, NRRD"
_MIXED_ENDINGS = tuple(end for one in MIXED for end in one.endings)
SEGMENTATION_FORMATS = ImageFormat(f"{_NAMES} or MetaImage", _MIXED_ENDINGS, NIFTI.shown)
SCORED_FORMATS = ImageFormat(f"{_NAMES}, MetaImage or DICOM-SEG", (*DICOM_SEG.endings, *_MIXED_ENDINGS), NIFTI.shown)
VOLUME_FORMATS = ImageFormat(f"{_NAMES}, MetaImage or DICOM", _MIXED_ENDINGS, NIFTI.shown, has_dicom=True)
OUTPUT_FORMATS = {  # of predicted segmentations of volumes, by setting
    "nifti": NIFTI,
    "ome-zarr": OME_ZARR,
    "mgz": MGH,
    "nrrd": ImageFormat("NRRD", (".nrrd",), ".nrrd"),
    "mha": ImageFormat("MetaImage", (".mha",), ".mha"),
    "dicom-seg": DICOM_SEG,
}
ENDINGS = tuple(ending for image_format in FORMATS for ending in reversed(image_format.endings))


def format_by_ending(file_ending: str) -> ImageFormat | None:
    """Returns the format with a file ending, or None if there is none.

    >>> format_by_ending(".tif").name
    'TIFF'
    """
    return next((image_format for image_format in FORMATS if file_ending in image_format.endings), None)


def is_picture_ending(file_ending: str) -> bool:
    """Returns whether images with a file ending are pictures, which are volumes of one plane."""
    return format_by_ending(file_ending) in (PNG, TIFF)


def is_zarr(path: Path) -> bool:
    """Returns whether a folder name has the OME-Zarr ending."""
    return OME_ZARR.stem(path) is not None


def is_itk(path: Path) -> bool:
    """Returns whether a file name has the ending of NRRD or MetaImage."""
    return NRRD.stem(path) is not None or METAIMAGE.stem(path) is not None


def is_dicom_seg(path: Path) -> bool:
    """Returns whether a file name has the ending of DICOM-SEG."""
    return DICOM_SEG.stem(path) is not None


def output_ending(volume: Path) -> str:
    """Returns the ending of a segmentation in the format of its volume: compressed NIfTI for NIfTI and DICOM.

    >>> [output_ending(Path(name)) for name in ("a.zarr", "a.nhdr", "a.mhd", "a.mgh", "a.nii", "series")]
    ['.ome.zarr', '.nrrd', '.mha', '.mgz', '.nii.gz', '.nii.gz']
    """
    return next((one.shown for one in (OME_ZARR, NRRD, METAIMAGE, MGH) if one.stem(volume) is not None), ".nii.gz")


def is_unnamed_zarr(path: Path) -> bool:
    """Returns whether a folder may be an OME-Zarr image without the ending: a Zarr group that contains no images.

    Raises:
      DataError: the folder cannot be read.
    """
    if is_zarr(path):
        return False
    with access_named(path):
        is_group = any((path / name).is_file() for name in ("zarr.json", ".zgroup"))
        return is_group and not any(map(is_zarr, path.iterdir()))


def is_mask_folder(path: Path) -> bool:
    """Returns whether a path is a folder of masks, one per label, rather than a folder that is one image."""
    return path.is_dir() and not is_image_folder(path)


def is_image_folder(path: Path) -> bool:
    """Returns whether a path is a folder that is one image: OME-Zarr or DICOM."""
    return path.is_dir() and VOLUME_FORMATS.stem(path) is not None
