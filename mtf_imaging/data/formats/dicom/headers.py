"""Reads the headers of DICOM files and refuses files that are not planes of a volume."""

import dataclasses
import filecmp
import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.dicom.files import check_pixels, flat_frames, read_dicom
from mtf_imaging.data.formats.dicom.padding import Padding, read_padding
from mtf_imaging.data.formats.packages import INSTALL_DICOM
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.files.reading import Fault, damage_named

FIX = "fetch the file again, move it elsewhere if it is not an image of the series, or convert the series to NIfTI"
_DEFERRED_BYTES = 1024  # longer elements, such as pixels, are skipped
# The beginnings of the classes of objects that refer to a series and often lie beside it: presentation states, spatial
# registrations and segmentations, reports, documents, and objects of radiotherapy.
_NO_IMAGES = tuple(f"1.2.840.10008.5.1.4.1.1.{part}." for part in (11, 66, 88, 104, 481))
_BITS = (8, 16, 32)  # of a stored number
_TAGS = (
    *("BitsAllocated", "BitsStored", "Columns", "GantryDetectorTilt", "ImageOrientationPatient"),
    *("ImagePositionPatient", "Modality", "ModalityLUTSequence", "NumberOfFrames", "PhotometricInterpretation"),
    *("PixelData", "PixelPaddingRangeLimit", "PixelPaddingValue", "PixelRepresentation", "PixelSpacing"),
    *("RescaleIntercept", "RescaleSlope", "Rows", "SOPClassUID", "SOPInstanceUID", "SamplesPerPixel"),
    *("SeriesDescription", "SeriesInstanceUID", "SliceThickness", "SpacingBetweenSlices"),
    *("PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"),
)


@dataclasses.dataclass(frozen=True)
class Plane:
    """The header of one plane of a volume. Positions and directions are in LPS, as in DICOM.

    Attributes:
      path: the file.
      frame: the number of the plane in a file of several; None if the file has one.
      series: the UID of its series.
      instance: the UID of the file.
      modality: the modality, such as CT or MR; "" if the header states none.
      description: the modality and the description of the series, for messages.
      size: number of pixels (columns, rows).
      position: `[3]` float64, the center of the first pixel in mm.
      along_row: `[3]` float64 unit vector, the direction in which the column number increases.
      along_column: `[3]` float64 unit vector, the direction in which the row number increases.
      pixel_size: distance in mm between neighboring (columns, rows).
      thickness: distance in mm to the next plane according to the header; None if the header lacks it.
      tilt: gantry tilt in degrees according to the header; 0 if the header lacks it.
      dtype: the type of the stored numbers.
      scale: (slope, intercept); a stored number stands for `slope * number + intercept`.
      padding: the stored numbers of pixels outside the image; None if the header states none.
    """

    path: Path
    frame: int | None
    series: str
    instance: str
    modality: str
    description: str
    size: tuple[int, int]
    position: np.ndarray
    along_row: np.ndarray
    along_column: np.ndarray
    pixel_size: tuple[float, float]
    thickness: float | None
    tilt: float
    dtype: np.dtype
    scale: tuple[float, float]
    padding: Padding | None

    @property
    def normal(self) -> np.ndarray:
        """`[3]` float64 unit vector, perpendicular to the plane."""
        return np.cross(self.along_row, self.along_column)

    @property
    def height(self) -> float:
        """Position in mm along the normal."""
        return float(self.position @ self.normal)


def read_planes(files: Iterable[Path]) -> list[Plane]:
    """Reads the headers of files; skips objects that are no images, and copies of files, with a warning.

    Raises:
      DataError: a file cannot be used.
    """
    planes: dict[object, Plane] = {}
    for plane in itertools.chain.from_iterable(map(_read_planes, files)):
        first = planes.setdefault((plane.instance or plane.path, plane.frame), plane)
        if first is not plane and filecmp.cmp(first.path, plane.path, shallow=False):
            warn_once(f"{plane.path}: is skipped, because it is a copy of {first.path.name}.")
        elif first is not plane:
            planes[plane.path, plane.frame] = plane
    return [*planes.values()]


def _read_planes(path: Path) -> list[Plane]:
    """Reads the planes of a file; none, with a warning, of an object that is no image, such as a segmentation.

    Raises:
      DataError: the file cannot be read; it has no pixels, colors or no position in space; or no installed package can
        decompress its pixels.
    """
    with damage_named(path, "DICOM", FIX):
        header = read_dicom(path, defer_size=_DEFERRED_BYTES, specific_tags=[*_TAGS])
        kind = header.get("SOPClassUID")
        if kind and f"{kind}.".startswith(_NO_IMAGES):
            warn_once(f"{path}: is skipped, because it is no image of the series, but an object of {kind.name}.")
            return []
        if fault := _fault_of_pixels(header):
            raise Fault(fault)
        _check_compression(header)
        frames, count = list(flat_frames(header)), int(header.get("NumberOfFrames") or 1)
        if len(frames) != count:
            raise Fault(f"this DICOM file has {count} frames, but the header states {len(frames)} position(s)")
        check_pixels(path, header, count)
        return [_plane(path, frame, number if count > 1 else None) for number, frame in enumerate(frames)]


def _fault_of_pixels(header: object) -> str:
    """Returns the reason that the pixels of a file are not the numbers of one plane, or ""."""
    if "SOPClassUID" not in header and "Rows" not in header:
        return "cannot be read as DICOM: the file is truncated or damaged"
    if "PixelData" not in header or not header.get("Rows") or not header.get("Columns"):
        return f"this DICOM file has no pixel data (its modality is {header.get('Modality') or 'unknown'})"
    samples, colors = int(header.get("SamplesPerPixel") or 1), header.get("PhotometricInterpretation") or ""
    # Programs disagree on whether MONOCHROME1, which is displayed with inverted gray values, has inverted values.
    if samples > 1 or colors != "MONOCHROME2":
        return f"has {samples} sample(s) per pixel of the kind '{colors}', but only one of 'MONOCHROME2' is supported"
    bits, is_signed = header.get("BitsAllocated"), header.get("PixelRepresentation")
    if bits not in _BITS or is_signed not in (0, 1):
        return f"BitsAllocated is {bits} and PixelRepresentation is {is_signed}, which is not a supported type"
    if header.get("ModalityLUTSequence"):
        return "its values are given by a table (Modality LUT), but only a slope and an intercept are supported"
    return ""


def _check_compression(header: object) -> None:
    """Raises Fault if the pixels are compressed and no decoder for them is installed."""
    syntax = header.file_meta.TransferSyntaxUID
    if not syntax.is_encapsulated:
        return
    from pydicom.pixels import get_decoder

    try:
        decoder = get_decoder(syntax)
    except NotImplementedError as error:
        raise Fault(f"its pixels are compressed as {syntax.name}, which no decoder supports") from error
    if not decoder.is_available:
        what = f"its pixels are compressed as {syntax.name}, and no decoder for it is installed"
        raise Fault(what, f"run {INSTALL_DICOM}")


def _plane(path: Path, header: object, frame: int | None) -> Plane:
    position = _numbers(header, "ImagePositionPatient", 3)
    directions = _numbers(header, "ImageOrientationPatient", 6)
    row_step, column_step = _numbers(header, "PixelSpacing", 2).tolist()
    along_row, along_column = directions[:3], directions[3:]
    products = [along_row @ along_row, along_column @ along_column, along_row @ along_column]
    if not np.allclose(products, [1, 1, 0], 0, 1e-2):
        raise Fault(f"ImageOrientationPatient {directions.tolist()} is not two perpendicular unit vectors")
    if min(row_step, column_step) <= 0:
        raise Fault(f"PixelSpacing {[row_step, column_step]} is not positive")
    along_row = along_row / np.linalg.norm(along_row)
    along_column = along_column - along_row * (along_row @ along_column)
    slope, intercept = (
        default if header.get(tag) in (None, "") else float(header.get(tag))
        for tag, default in (("RescaleSlope", 1.0), ("RescaleIntercept", 0.0))
    )
    if not np.isfinite([slope, intercept]).all() or slope == 0:
        raise Fault(f"RescaleSlope {slope:g} and RescaleIntercept {intercept:g} do not give the values of its numbers")
    thickness = float(header.get("SpacingBetweenSlices") or header.get("SliceThickness") or 0)
    described = (header.get("Modality"), header.get("SeriesDescription"))
    dtype = np.dtype(f"{'i' if header.PixelRepresentation else 'u'}{header.BitsAllocated // 8}")
    return Plane(
        path=path,
        frame=frame,
        series=str(header.get("SeriesInstanceUID") or ""),
        instance=str(header.get("SOPInstanceUID") or ""),
        modality=str(header.get("Modality") or ""),
        description=" ".join(str(text) for text in described if text) or "without description",
        size=(int(header.Columns), int(header.Rows)),
        position=position,
        along_row=along_row,
        along_column=along_column / np.linalg.norm(along_column),
        pixel_size=(column_step, row_step),
        thickness=abs(thickness) or None,
        tilt=float(header.get("GantryDetectorTilt") or 0),
        dtype=dtype,
        scale=(slope, intercept),
        padding=read_padding(header, dtype),
    )


def _numbers(header: object, tag: str, count: int) -> np.ndarray:
    """Returns the numbers of an element, float64 `[count]`."""
    numbers = np.array([float(value) for value in header.get(tag) or ()])
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise Fault(f"its header has no {tag} with {count} numbers, but {numbers.tolist()}")
    return numbers
