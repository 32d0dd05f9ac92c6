"""Reads a folder of DICOM files, a series, as one volume."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mtf_imaging.data.dicom.files import dicom_files
from mtf_imaging.data.dicom.headers import Plane, read_plane
from mtf_imaging.data.dicom.library import import_pydicom
from mtf_imaging.data.dicom.stacking import stack
from mtf_imaging.data.nifti.made_geometry import MadeGeometry, made_fields
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named

_SLAB_VOXELS = 1 << 21  # as in `StoredValues`


@dataclasses.dataclass(frozen=True)
class DicomSeries:
    """A series of DICOM files, one per plane. The stored axes are (column, row, plane).

    It has the interface of `StoredValues`: the stored numbers are read in slabs along the last axis.

    Attributes:
      path: the folder.
      planes: the headers of the files, ordered along the last axis.
      geometry: the place of the voxels, with a header for segmentations in NIfTI.
    """

    path: Path
    planes: tuple[Plane, ...]
    geometry: MadeGeometry

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each stored axis."""
        return (*self.planes[0].size, len(self.planes))

    @property
    def size(self) -> int:
        """Number of voxels."""
        return int(np.prod(self.shape))

    @property
    def _has_one_scale(self) -> bool:
        return len({(plane.scale, plane.dtype) for plane in self.planes}) == 1

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored numbers; float64 if the planes have different scales, which are then applied."""
        return self.planes[0].dtype if self._has_one_scale else np.dtype(np.float64)

    @property
    def scale(self) -> tuple[float, float]:
        """(slope, intercept): a stored number stands for the value `slope * number + intercept`."""
        return self.planes[0].scale if self._has_one_scale else (1.0, 0.0)

    @property
    def is_scaled(self) -> bool:
        return self.scale != (1.0, 0.0)

    def numbers(self, start: int, stop: int) -> np.ndarray:
        """Reads the stored numbers of some planes.

        Args:
          start: the first plane.
          stop: the plane after the last one.

        Returns:
          `[columns, rows, stop - start]` of type `dtype`.

        Raises:
          DataError: a file cannot be read, or its pixels are damaged.
        """
        slab = np.empty((*self.shape[:2], stop - start), self.dtype, order="F")
        for index, plane in enumerate(self.planes[start:stop]):
            pixels = read_pixels(plane)
            if not self._has_one_scale:
                slope, intercept = plane.scale
                pixels = pixels * np.float64(slope) + intercept
            slab[..., index] = pixels.T
        return slab

    def raw_slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes, stored numbers `[columns, rows, planes]`) in order; each slab is read on demand."""
        planes = max(1, _SLAB_VOXELS // int(np.prod(self.shape[:2])))
        for start in range(0, self.shape[2], planes):
            at = slice(start, min(start + planes, self.shape[2]))
            yield at, self.numbers(at.start, at.stop)

    def slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes, values `[columns, rows, planes]`): float64 if scaled, otherwise the stored type."""
        slope, intercept = self.scale
        for at, slab in self.raw_slabs():
            yield at, slab * np.float64(slope) + intercept if self.is_scaled else slab


def open_series(folder: str | Path) -> DicomSeries:
    """Reads the headers of the DICOM files of a folder, and checks that they are one volume.

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
        raise DataError(f"{folder}: holds no DICOM file. Fix: give the folder with the files of one series.")
    planes, affine = stack(folder, [read_plane(file) for file in files])
    geometry = MadeGeometry(**made_fields((*planes[0].size, len(planes)), affine))
    return DicomSeries(folder, tuple(planes), geometry)


def read_pixels(plane: Plane) -> np.ndarray:
    """Reads the pixels of a file, `[rows, columns]` of the type of the header.

    Raises:
      DataError: the file cannot be read, or its pixels are damaged.
    """
    pydicom = import_pydicom(plane.path)
    columns, rows = plane.size
    try:
        with access_named(plane.path):
            pixels = pydicom.dcmread(plane.path).pixel_array
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
