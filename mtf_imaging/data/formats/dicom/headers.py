"""Reads the header of one DICOM file and refuses files that are not one plane of a volume."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.formats.dicom.library import INSTALL, import_pydicom
from mtf_imaging.data.formats.dicom.padding import Padding, read_padding
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named

_DEFERRED_BYTES = 1024  # longer elements, such as pixels, are skipped
_BITS = (8, 16, 32)  # of a stored number
_MOST_BYTES = 1 << 28  # the limit for the pixels of a compressed plane
_MOST_RATIO = 10_000  # of larger compressed planes; compressed planes of a single value reach this ratio
_TAGS = (
    "BitsAllocated",
    "BitsStored",
    "Columns",
    "GantryDetectorTilt",
    "ImageOrientationPatient",
    "ImagePositionPatient",
    "Modality",
    "ModalityLUTSequence",
    "NumberOfFrames",
    "PhotometricInterpretation",
    "PixelData",
    "PixelPaddingRangeLimit",
    "PixelPaddingValue",
    "PixelRepresentation",
    "PixelSpacing",
    "RescaleIntercept",
    "RescaleSlope",
    "Rows",
    "SOPClassUID",
    "SOPInstanceUID",
    "SamplesPerPixel",
    "SeriesDescription",
    "SeriesInstanceUID",
    "SliceThickness",
    "SpacingBetweenSlices",
)


@dataclasses.dataclass(frozen=True)
class Plane:
    """The header of one DICOM file: one plane of a volume. Positions and directions are in LPS, as in DICOM.

    Attributes:
      path: the file.
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


def read_plane(path: Path) -> Plane:
    """Reads the header of a file.

    Raises:
      DataError: the file cannot be read; it has no pixels, several frames, colors or no position in space; or no
          installed package can decompress its pixels.
    """
    pydicom = import_pydicom(path)
    try:
        with reading_named(path):
            header = pydicom.dcmread(path, defer_size=_DEFERRED_BYTES, specific_tags=[*_TAGS])
            _check_pixels(path, header)
            _check_compression(path, header)
            _check_room(path, header)
            return _plane(path, header)
    except DataError:
        raise
    except pydicom.errors.InvalidDicomError as error:
        raise DataError(
            f"{path}: cannot be read as DICOM: the signature at the start of the file is missing. Fix: fetch the file "
            "again, remove it if it is not DICOM, or convert the series to NIfTI, for example with dcm2niix."
        ) from error
    except Exception as error:  # pydicom raises errors of many types for damaged values
        raise DataError(
            f"{path}: cannot be read as DICOM: its header is damaged ({error}). Fix: fetch the file again."
        ) from error


def _check_pixels(path: Path, header: Any) -> None:
    if "SOPClassUID" not in header and "Rows" not in header:
        raise DataError(f"{path}: cannot be read as DICOM: the file is truncated or damaged. Fix: fetch it again.")
    modality = header.get("Modality") or "unknown"
    if "PixelData" not in header or not header.get("Rows") or not header.get("Columns"):
        raise DataError(
            f"{path}: this DICOM file has no pixel data (its modality is {modality}). Fix: remove it from the folder, "
            "or fetch the images again."
        )
    frames = int(header.get("NumberOfFrames") or 1)
    if frames > 1:
        raise DataError(
            f"{path}: this DICOM file has {frames} frames, but only series with one plane per file can be read. "
            "Fix: convert it to NIfTI, for example with dcm2niix."
        )
    samples, colors = int(header.get("SamplesPerPixel") or 1), header.get("PhotometricInterpretation") or ""
    # Programs disagree on whether MONOCHROME1, which is displayed with inverted gray values, has inverted values.
    if samples > 1 or colors != "MONOCHROME2":
        raise DataError(
            f"{path}: has {samples} sample(s) per pixel of the kind '{colors}', but only one of the kind 'MONOCHROME2' "
            "is supported. Fix: remove it from the folder, or give the original images instead of screenshots."
        )
    bits, is_signed = header.get("BitsAllocated"), header.get("PixelRepresentation")
    if bits not in _BITS or is_signed not in (0, 1):
        raise DataError(
            f"{path}: BitsAllocated is {bits} and PixelRepresentation is {is_signed}, so the type of its numbers is "
            f"not known; supported are {', '.join(map(str, _BITS))} bits and 0 or 1. Fix: fetch the file again, or "
            "remove it if it is not an image."
        )
    if header.get("ModalityLUTSequence"):
        raise DataError(
            f"{path}: its values are given by a table (Modality LUT), but only a slope and an intercept are "
            "supported. Fix: convert the series to NIfTI."
        )


def _check_compression(path: Path, header: Any) -> None:
    """Raises DataError if the pixels are compressed and no decoder for them is installed."""
    syntax = header.file_meta.TransferSyntaxUID
    if not syntax.is_encapsulated:
        return
    from pydicom.pixels import get_decoder

    try:
        decoder = get_decoder(syntax)
    except NotImplementedError as error:
        raise DataError(
            f"{path}: its pixels are compressed as {syntax.name}, which no decoder supports. Fix: fetch the series "
            "without compression, or convert it to NIfTI."
        ) from error
    if not decoder.is_available:
        raise DataError(
            f"{path}: its pixels are compressed as {syntax.name}, and no decoder for it is installed. "
            f"Fix: run {INSTALL}"
        )


def _check_room(path: Path, header: Any) -> None:
    """Raises DataError if a file is too small for the pixels that its header declares."""
    rows, columns, bits = int(header.Rows), int(header.Columns), int(header.BitsAllocated)
    needed, size = rows * columns * bits // 8, path.stat().st_size
    syntax = header.file_meta.TransferSyntaxUID
    is_plain = not syntax.is_encapsulated and not syntax.is_deflated
    if needed > (size if is_plain else max(_MOST_BYTES, _MOST_RATIO * size)):
        raise DataError(
            f"{path}: its header declares {rows} rows and {columns} columns of {bits} bits ({needed} bytes), but the "
            f"file has {size} {'bytes' if is_plain else 'compressed bytes'}. The file is truncated, or its header is "
            "damaged. Fix: fetch the file again."
        )


def _plane(path: Path, header: Any) -> Plane:
    position = _numbers(path, header, "ImagePositionPatient", 3)
    directions = _numbers(path, header, "ImageOrientationPatient", 6)
    row_step, column_step = _numbers(path, header, "PixelSpacing", 2)
    along_row, along_column = directions[:3], directions[3:]
    if not np.allclose(
        [along_row @ along_row, along_column @ along_column, along_row @ along_column], [1, 1, 0], 0, 1e-2
    ):
        raise DataError(
            f"{path}: ImageOrientationPatient {directions.tolist()} is not two perpendicular unit vectors. "
            "Fix: fetch the file again, or convert the series to NIfTI with a tool that repairs it."
        )
    if min(row_step, column_step) <= 0:
        raise DataError(
            f"{path}: PixelSpacing {[float(row_step), float(column_step)]} is not positive. Fix: fetch the file again."
        )
    along_row = along_row / np.linalg.norm(along_row)
    along_column = along_column - along_row * (along_row @ along_column)
    scale = _number(header, "RescaleSlope", 1.0), _number(header, "RescaleIntercept", 0.0)
    if not np.isfinite(scale).all() or scale[0] == 0:
        raise DataError(
            f"{path}: RescaleSlope {scale[0]:g} and RescaleIntercept {scale[1]:g} do not give the values of the "
            "stored numbers. Fix: fetch the file again."
        )
    thickness = float(header.get("SpacingBetweenSlices") or header.get("SliceThickness") or 0)
    described = (header.get("Modality"), header.get("SeriesDescription"))
    dtype = np.dtype(f"{'i' if header.PixelRepresentation else 'u'}{header.BitsAllocated // 8}")
    return Plane(
        path=path,
        series=str(header.get("SeriesInstanceUID") or ""),
        instance=str(header.get("SOPInstanceUID") or ""),
        modality=str(header.get("Modality") or ""),
        description=" ".join(str(text) for text in described if text) or "without description",
        size=(int(header.Columns), int(header.Rows)),
        position=position,
        along_row=along_row,
        along_column=along_column / np.linalg.norm(along_column),
        pixel_size=(float(column_step), float(row_step)),
        thickness=abs(thickness) or None,
        tilt=float(header.get("GantryDetectorTilt") or 0),
        dtype=dtype,
        scale=scale,
        padding=read_padding(header, dtype),
    )


def _number(header: Any, tag: str, default: float) -> float:
    value = header.get(tag)
    return default if value in (None, "") else float(value)


def _numbers(path: Path, header: Any, tag: str, count: int) -> np.ndarray:
    values = header.get(tag)
    if values is None or len(values) != count:
        raise DataError(
            f"{path}: its header has no {tag} with {count} numbers, so its place in the volume is not known. "
            "Fix: fetch the original series, or convert it to NIfTI."
        )
    numbers = np.array([float(value) for value in values])
    if not np.isfinite(numbers).all():
        raise DataError(f"{path}: {tag} {numbers.tolist()} is not finite. Fix: fetch the file again.")
    return numbers
