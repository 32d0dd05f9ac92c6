"""Reads a folder of DICOM files, a series, as one volume."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.dicom.files import is_deflated
from mtf_imaging.data.formats.dicom.headers import Plane, read_planes
from mtf_imaging.data.formats.dicom.padding import is_tissue, padding_value
from mtf_imaging.data.formats.dicom.stacking import stack
from mtf_imaging.data.formats.packages import import_pydicom
from mtf_imaging.data.images.geometry import MadeGeometry
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.listing.dicom_files import SHOWN_ENDINGS, dicom_files
from mtf_imaging.data.modality import CT
from mtf_imaging.files.reading import Fault, damage_named, faults_named


@dataclasses.dataclass(frozen=True, kw_only=True)
class DicomGeometry(MadeGeometry):
    """Geometry of a series of DICOM files.

    Attributes:
      files: the files of the planes, ordered along the last stored axis.
      frames: the number of each plane in its file.
    """

    files: tuple[Path, ...]
    frames: tuple[int, ...]


def open_series(folder: Path) -> tuple[list[Stored], DicomGeometry]:
    """Reads the headers of the DICOM files in a folder, and checks that they form one volume.

    Args:
      folder: a folder with the files of one series. Its subfolders are not read, and other files are skipped.

    Returns:
      The stored numbers, with the axes (column, row, plane), and the geometry. If the planes have several types or
      scales, or padding, the numbers are the values, float64.

    Raises:
      DataError: pydicom is missing; there is no DICOM file; a file is damaged or is not one plane of a volume (see
        `headers.Plane`); or the files are not the planes of one volume (see `stack`).
    """
    import_pydicom(folder)
    with faults_named(folder, "give the folder with the files of one series"):
        planes = read_planes(dicom_files(folder))
        if not planes:
            raise Fault(f"holds no DICOM file of an image (with the ending {SHOWN_ENDINGS})")
        planes, affine = stack(planes)
    _warn_of_padding(folder, planes)
    first, shape = planes[0], (*planes[0].size, len(planes))
    is_uniform = all((one.scale, one.dtype, one.padding) == (first.scale, first.dtype, None) for one in planes)
    stored = Stored(
        path=folder,
        shape=shape,
        dtype=first.dtype if is_uniform else np.dtype(np.float64),
        open=functools.partial(SeriesPlanes, planes, is_uniform),
        scale=first.scale if is_uniform else (1.0, 0.0),
        modality=first.modality or None,
    )
    files, frames = dict.fromkeys(plane.path for plane in planes), (plane.frame or 0 for plane in planes)
    return [stored], DicomGeometry.of(shape, affine, files=tuple(files), frames=tuple(frames))


class SeriesPlanes(Planes):
    """Reads planes of a series.

    Args:
      planes: the headers of the files, ordered along the last axis.
      is_uniform: whether all planes have the same type and scale, and none has padding.
    """

    def __init__(self, planes: Sequence[Plane], is_uniform: bool) -> None:
        self._planes, self._is_uniform = planes, is_uniform

    def read(self, planes: slice) -> np.ndarray:
        read = read_pixels if self._is_uniform else _values
        return np.stack([read(plane) for plane in self._planes[planes]]).T


def _values(plane: Plane) -> np.ndarray:
    """Reads a plane as values, float64 `[rows, columns]`; padding becomes air in a CT, and 0 otherwise."""
    pixels, (slope, intercept) = read_pixels(plane), plane.scale
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
            what = f"PixelPaddingValue stands for {doubtful[0]:g} HU, which tissue can have"
            fix = f"if it is no padding, remove the element from {plane.path.name} and the other files"
            warn_once(f"{folder}: {what}; all pixels of this value are read as air. Fix: {fix}.")
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
    with damage_named(plane.path, "DICOM"):
        options = {"correct_unused_bits": False} if all_bits else {}
        is_whole = plane.frame is None or is_deflated(plane.path)
        source = pydicom.dcmread(plane.path) if is_whole else plane.path
        pixels = pydicom.pixels.pixel_array(source, index=plane.frame, **options)
        if pixels.shape != plane.size[::-1]:
            raise ValueError(f"it has {pixels.shape} pixels (rows, columns), not {plane.size[::-1]}")
    return pixels.astype(plane.dtype, copy=False)
