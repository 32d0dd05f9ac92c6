"""The stored numbers of a NRRD or MetaImage file.

SimpleITK can read single planes only from uncompressed MetaImage files. The first call reads other files as a whole,
and they stay in memory until the reader is closed.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.formats.itk.compressed import check_compressed
from mtf_imaging.data.formats.itk.geometry import ItkGeometry, Place, itk_geometry
from mtf_imaging.data.formats.itk.library import import_simpleitk
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.listing.itk_headers import ItkHeader, read_itk_header
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named

_INFLATED = 1032  # the largest expansion ratio of the gzip format
_NO_DIRECTIONS = "its header does not state the anatomical directions of the axes"
_TYPES = {
    **{f"{sign}Int{bits}": np.dtype(f"{sign.lower()}int{bits}") for sign in ("U", "") for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": np.dtype(f"float{bits}") for bits in (32, 64)},
}


@dataclasses.dataclass(frozen=True)
class ItkNumbers(Stored):
    """The stored numbers of a file, with the axes in the order of the file.

    Attributes:
      path: the file.
      header: its text header.
      size_of_file: number of voxels along each stored axis.
      number_type: type of the numbers.
    """

    path: Path
    header: ItkHeader
    size_of_file: tuple[int, int, int]
    number_type: np.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size_of_file

    @property
    def dtype(self) -> np.dtype:
        return self.number_type

    def open(self) -> "ItkPlanes":
        return ItkPlanes(self)


class ItkPlanes:
    """Reads planes of a file; see `Planes`."""

    def __init__(self, stored: ItkNumbers) -> None:
        self._stored = stored
        self._by_plane = stored.header.is_raw and not stored.header.is_nrrd
        self._whole: np.ndarray | None = None

    def read(self, planes: slice) -> np.ndarray:
        """Returns the stored numbers `[i, j, planes]` of a range of planes.

        Raises:
          DataError: the file is damaged.
        """
        if self._by_plane:
            return self._read(planes)
        if self._whole is None:
            self._whole = self._read(slice(0, self._stored.shape[2]))
        return self._whole[..., planes]

    def _read(self, planes: slice) -> np.ndarray:
        path, (width, height, _) = self._stored.path, self._stored.shape
        simpleitk = import_simpleitk(path)
        with damage_named(path):
            reader = _reader(simpleitk, path)
            reader.SetExtractIndex([0, 0, planes.start])
            reader.SetExtractSize([width, height, planes.stop - planes.start])
            array = simpleitk.GetArrayFromImage(reader.Execute())
        return array.transpose()

    def check_end(self) -> None:
        """Checks compressed voxels, because SimpleITK does not notice that they are damaged."""
        check_compressed(self._stored.header, self._stored.size * self._stored.dtype.itemsize)

    def close(self) -> None:
        """Frees the numbers of a file that was read as a whole."""
        self._whole = None


def open_itk(path: Path) -> tuple[ItkNumbers, ItkGeometry]:
    """Reads the header of a NRRD or MetaImage file.

    Args:
      path: a .nrrd, .nhdr, .mha or .mhd file.

    Raises:
      DataError: SimpleITK is missing; the file is missing, damaged or truncated; or it is not a single volume of plain
          numbers in millimeters.
    """
    simpleitk = import_simpleitk(path)
    header = read_itk_header(path)
    with damage_named(path):
        reader = _reader(simpleitk, path)
        reader.ReadImageInformation()
    _check_volume(reader, header)
    name = simpleitk.GetPixelIDValueAsString(reader.GetPixelID())
    dtype = _types(simpleitk).get(reader.GetPixelID())
    if dtype is None:
        raise DataError(
            f"{path}: voxels are of type {name}, not plain numbers. Fix: store one number (HU or label) per voxel."
        )
    shape = tuple(map(int, reader.GetSize()))
    _check_room(header, shape, dtype)
    place = Place(
        *(tuple(map(float, each)) for each in (reader.GetOrigin(), reader.GetSpacing(), reader.GetDirection()))
    )
    doubt = None if header.has_directions else _NO_DIRECTIONS
    geometry = itk_geometry(shape, place, doubt=doubt, has_size=header.has_size)
    return ItkNumbers(path, header, shape, dtype), geometry


def _reader(simpleitk: Any, path: Path) -> Any:
    reader = simpleitk.ImageFileReader()
    reader.SetFileName(str(path))
    return reader


def _types(simpleitk: Any) -> dict[int, np.dtype]:
    """Returns {SimpleITK type number: NumPy type}."""
    return {getattr(simpleitk, f"sitk{name}"): dtype for name, dtype in _TYPES.items()}


def _check_volume(reader: Any, header: ItkHeader) -> None:
    """Checks that a file is one volume in millimeters."""
    path, count = header.path, reader.GetNumberOfComponents()
    if count > 1 and path.name.lower().endswith(".seg.nrrd"):
        raise DataError(
            f"{path}: this segmentation has {count} layers, whose segments may overlap. Fix: export it as a label map, "
            "for example in 3D Slicer with Segmentations > Export to files."
        )
    if count > 1 or reader.GetDimension() != 3:
        size = " x ".join(map(str, reader.GetSize()))
        raise DataError(
            f"{path}: has {reader.GetDimension()} axes ({size}) and {count} number(s) per voxel, but one volume with 3 "
            "axes and one number per voxel is needed. Fix: store each channel or point in time in a file of its own."
        )
    units = header.fields.get("spaceunits", '"mm"').replace('"', " ").split()
    if header.is_nrrd and any(unit not in ("mm", "none", "") for unit in units):
        raise DataError(
            f"{path}: its space units are {' '.join(units)}, but ITK reads lengths as mm. Fix: store lengths in mm."
        )


def _check_room(header: ItkHeader, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Checks that a file is large enough for its voxels, before memory for them is allocated."""
    with reading_named(header.data):
        if not header.data.is_file():
            raise DataError(
                f"{header.path}: its voxels are in {header.data.name}, which does not exist. Fix: add this file."
            )
        size = header.data.stat().st_size - header.offset
    needed = math.prod(shape) * dtype.itemsize
    if needed > size * (1 if header.is_raw else _INFLATED):
        raise DataError(
            f"{header.path}: its header declares {' x '.join(map(str, shape))} voxels of {dtype} ({needed} bytes), but "
            f"{header.data.name} has {size} bytes for them. The file is truncated, or its header is damaged. "
            "Fix: fetch the file again."
        )


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Converts SimpleITK's errors about a damaged file into a DataError that names the file."""
    try:
        with reading_named(path):
            yield
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise DataError(
            f"{path}: cannot be read as NRRD or MetaImage: it is damaged or has another format "
            f"({lines[-1] if lines else 'no reason stated'}). Fix: fetch the file again."
        ) from error
