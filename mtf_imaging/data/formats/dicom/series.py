"""Reads a folder of DICOM files, a series, as one volume."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.dicom.headers import Plane, read_plane
from mtf_imaging.data.formats.dicom.library import import_pydicom
from mtf_imaging.data.formats.dicom.padding import is_tissue, padding_value
from mtf_imaging.data.formats.dicom.stacking import stack
from mtf_imaging.data.images.made_geometry import MadeGeometry, made_fields
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.listing.dicom_files import SHOWN_ENDINGS, dicom_files
from mtf_imaging.data.modality import CT
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named


@dataclasses.dataclass(frozen=True, kw_only=True)
class DicomGeometry(MadeGeometry):
    """Geometry of a series of DICOM files.

    Attributes:
      files: the file of each plane, ordered along the last stored axis.
    """

    files: tuple[Path, ...]


@dataclasses.dataclass(frozen=True)
class DicomSeries(Stored):
    """The stored numbers of a series of DICOM files, one per plane, with the axes (column, row, plane).

    Attributes:
      path: the folder.
      planes: the headers of the files, ordered along the last axis.
      geometry: the position of the voxels, with a header for NIfTI segmentations.
    """

    path: Path
    planes: tuple[Plane, ...]
    geometry: DicomGeometry

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each stored axis."""
        return (*self.planes[0].size, len(self.planes))

    @property
    def modality(self) -> str | None:
        return self.planes[0].modality or None

    @functools.cached_property
    def is_uniform(self) -> bool:
        """Whether all planes have the same type and scale, and none has padding."""
        kinds = {(plane.scale, plane.dtype) for plane in self.planes}
        return len(kinds) == 1 and all(plane.padding is None for plane in self.planes)

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored numbers; float64 if the planes are not uniform and values are stored instead."""
        return self.planes[0].dtype if self.is_uniform else np.dtype(np.float64)

    @property
    def scale(self) -> tuple[float, float]:
        """(slope, intercept): a stored number stands for the value `slope * number + intercept`."""
        return self.planes[0].scale if self.is_uniform else (1.0, 0.0)

    def open(self) -> "SeriesPlanes":
        return SeriesPlanes(self)


@dataclasses.dataclass(frozen=True)
class SeriesPlanes:
    """Reads planes of a series; see `Planes`."""

    series: DicomSeries

    def read(self, planes: slice) -> np.ndarray:
        """Returns the stored numbers `[columns, rows, planes]` of a range of planes.

        Raises:
          DataError: a file cannot be read, or its pixels are damaged.
        """
        series = self.series
        slab = np.empty((*series.shape[:2], planes.stop - planes.start), series.dtype, order="F")
        for index, plane in enumerate(series.planes[planes]):
            pixels = read_pixels(plane)
            slab[..., index] = (pixels if series.is_uniform else _values(plane, pixels)).T
        return slab

    def check_end(self) -> None:
        """Does nothing, because every file is checked when it is read."""

    def close(self) -> None:
        """Does nothing, because no file stays open."""


def open_series(folder: str | Path) -> DicomSeries:
    """Reads the headers of the DICOM files in a folder, and checks that they form one volume.

    Args:
      folder: a folder with the files of one series. Its subfolders are not read, and other files are skipped.

    Raises:
      DataError: pydicom is missing; there is no DICOM file; a file is damaged or is not one plane of a volume (see
        `read_plane`); or the files are not the planes of one volume (see `stack`).
    """
    folder = Path(folder)
    import_pydicom(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: this folder of DICOM files does not exist. Fix: check the path.")
    files = dicom_files(folder)
    if not files:
        raise DataError(
            f"{folder}: holds no DICOM file (with the ending {SHOWN_ENDINGS}). Fix: give the folder with the files of "
            "one series."
        )
    planes, affine = stack(folder, [read_plane(file) for file in files])
    _warn_of_padding(folder, planes)
    files = tuple(plane.path for plane in planes)
    geometry = DicomGeometry(**made_fields((*planes[0].size, len(planes)), affine), files=files)
    return DicomSeries(folder, tuple(planes), geometry)


def _values(plane: Plane, pixels: np.ndarray) -> np.ndarray:
    """Converts the stored numbers of a plane to values, float64; padding becomes air in a CT, and 0 otherwise."""
    slope, intercept = plane.scale
    values = pixels * np.float64(slope) + intercept
    if plane.padding is not None:
        numbers = read_pixels(plane, all_bits=True) if plane.padding.is_raw else pixels
        values[plane.padding.mask(numbers)] = padding_value(plane.modality)
    return values


def _warn_of_padding(folder: Path, planes: Sequence[Plane]) -> None:
    """Warns if padding has a value that tissue can have, because that tissue is then read as air."""
    for plane in planes:
        if plane.padding is None or plane.modality not in (CT, ""):
            continue
        slope, intercept = plane.scale
        ends = (plane.padding.lowest, plane.padding.highest)
        doubtful = [hu for hu in (slope * number + intercept for number in ends) if is_tissue(hu)]
        if doubtful:
            warn_once(
                f"{folder}: PixelPaddingValue stands for {doubtful[0]:g} HU, which tissue can have; all pixels of this "
                f"value are read as air. Fix: if it is no padding, remove the element from {plane.path.name} and the "
                "other files."
            )
            return


def read_pixels(plane: Plane, all_bits: bool = False) -> np.ndarray:
    """Reads the pixels of a file, `[rows, columns]` in the type that the header states.

    Args:
      plane: the header of the file.
      all_bits: whether to keep the bits outside the stored bits of the header.

    Raises:
      DataError: the file cannot be read, or its pixels are damaged.
    """
    pydicom = import_pydicom(plane.path)
    columns, rows = plane.size
    try:
        with reading_named(plane.path):
            header = pydicom.dcmread(plane.path)
            options = {"correct_unused_bits": False} if all_bits else {}
            pixels = pydicom.pixels.pixel_array(header, **options)
    except DataError:
        raise
    except Exception as error:  # decoders raise errors of many types
        raise DataError(
            f"{plane.path}: its pixels cannot be read ({error}). The file is truncated or damaged. "
            "Fix: fetch the file again."
        ) from error
    if pixels.shape != (rows, columns):
        raise DataError(
            f"{plane.path}: has {pixels.shape} pixels (rows, columns), but its header states {(rows, columns)}. "
            "Fix: fetch the file again."
        )
    return pixels.astype(plane.dtype, copy=False)
