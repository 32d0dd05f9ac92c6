"""Reads NRRD and MetaImage files with SimpleITK.

SimpleITK can read single planes only from uncompressed MetaImage files. The first call reads other files as a whole,
and they stay in memory until the reader is closed. It does not report damage of compressed voxels, so these are checked
here.
"""

import bz2
import functools
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.formats.itk.geometry import ItkGeometry, Place
from mtf_imaging.data.formats.label_names import names_in_nrrd
from mtf_imaging.data.formats.packages import import_simpleitk
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.listing.itk_headers import ItkHeader, read_itk_header
from mtf_imaging.files.memory import INFLATED, check_room
from mtf_imaging.files.reading import Fault, check_not_special, damage_named

_KIND = "NRRD or MetaImage"
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
_BLOCK_BYTES = 1 << 20
_SKIPS = ("byteskip", "lineskip")  # fields that skip data before the voxels; our files lack them
_NO_DIRECTIONS = "its header does not state the anatomical directions of the axes"
_TYPES = {
    **{f"{sign}Int{bits}": np.dtype(f"{sign.lower()}int{bits}") for sign in ("U", "") for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": np.dtype(f"float{bits}") for bits in (32, 64)},
}


def open_itk(path: Path) -> tuple[list[Stored], ItkGeometry]:
    """Reads the header of a file.

    Args:
      path: a .nrrd, .nhdr, .mha or .mhd file.

    Raises:
      DataError: SimpleITK is missing; the file is missing, damaged or truncated; or it is not a single volume of plain
          numbers in millimeters.
    """
    simpleitk = import_simpleitk(path)
    header = read_itk_header(path)
    with damage_named(path, _KIND):
        check_not_special(header.data)  # SimpleITK would wait for a pipe
        if not header.data.is_file():
            raise Fault(f"its voxels are in {header.data.name}, which does not exist", "add this file")
        reader = _reader(path)
        reader.ReadImageInformation()
        shape, count = tuple(map(int, reader.GetSize())), reader.GetNumberOfComponents()
        if count > 1 or len(shape) != 3:
            what = f"has {len(shape)} axes ({' x '.join(map(str, shape))}) and {count} number(s) per voxel"
            own = "store each channel or point in time in a file of its own"
            fix = f"{own}; in 3D Slicer, export a segmentation with layers as a label map"
            raise Fault(f"{what}, but one volume with 3 axes and one number per voxel is needed", fix)
        units = header.fields.get("spaceunits", '"mm"').replace('"', " ").split()
        if header.is_nrrd and not {*units} <= {"mm", "none"}:
            raise Fault(f"its space units are {' '.join(units)}, but ITK reads lengths as mm", "store lengths in mm")
        types = {getattr(simpleitk, f"sitk{name}"): dtype for name, dtype in _TYPES.items()}
        dtype = types.get(reader.GetPixelID())
        if dtype is None:
            name = simpleitk.GetPixelIDValueAsString(reader.GetPixelID())
            raise Fault(f"voxels are of type {name}, not plain numbers", "store one number (HU or label) per voxel")
        needed, size = math.prod(shape) * dtype.itemsize, header.data.stat().st_size - header.offset
        declared = f"{' x '.join(map(str, shape))} voxels of {dtype} ({needed} bytes)"
        at_once = 2 * needed // (shape[2] if header.is_raw and not header.is_nrrd else 1)  # see `ItkPlanes`
        check_room(declared, needed, size, 1 if header.is_raw else INFLATED, at_once)
        stated = reader.GetOrigin(), reader.GetSpacing(), reader.GetDirection()
        place = Place(*(tuple(map(float, each)) for each in stated))
    doubt = None if header.has_directions else _NO_DIRECTIONS
    geometry = ItkGeometry.of(shape, place.affine, doubt=doubt, has_size=header.has_size, place=place)
    planes = functools.partial(ItkPlanes, header, shape, dtype)
    return [Stored(path, shape, dtype, planes, names=names_in_nrrd(header.pairs))], geometry


class ItkPlanes(Planes):
    """Reads planes of a file.

    Args:
      header: the text header of the file.
      shape: number of voxels along each stored axis.
      dtype: type of the numbers.
    """

    def __init__(self, header: ItkHeader, shape: tuple[int, int, int], dtype: np.dtype) -> None:
        self._header, self._shape, self._num_bytes = header, shape, math.prod(shape) * dtype.itemsize
        self._by_plane = header.is_raw and not header.is_nrrd
        self._whole: np.ndarray | None = None

    def read(self, planes: slice) -> np.ndarray:
        if self._by_plane:
            return self._read(planes)
        if self._whole is None:
            self._whole = self._read(slice(0, self._shape[2]))
        return self._whole[..., planes]

    def _read(self, planes: slice) -> np.ndarray:
        path, (width, height, _) = self._header.path, self._shape
        simpleitk = import_simpleitk(path)
        with damage_named(path, _KIND):
            reader = _reader(path)
            reader.SetExtractIndex([0, 0, planes.start])
            reader.SetExtractSize([width, height, planes.stop - planes.start])
            array = simpleitk.GetArrayFromImage(reader.Execute())
        return array.transpose()

    def check_end(self) -> None:
        """Decompresses compressed voxels, block by block, and checks their number and checksum."""
        header, stream = self._header, _decompressor(self._header)
        if stream is None or any(header.fields.get(key, "0") != "0" for key in _SKIPS):
            return
        count = 0
        with damage_named(header.path, _KIND), open(header.data, "rb") as file:
            file.seek(header.offset)
            while not stream.eof and (block := file.read(_BLOCK_BYTES)):
                needs_input = False
                while not needs_input and not stream.eof:
                    count += len(stream.decompress(block, _BLOCK_BYTES))
                    block = getattr(stream, "unconsumed_tail", b"")  # of zlib
                    needs_input = getattr(stream, "needs_input", not block)  # of bz2
            if not stream.eof or count != self._num_bytes:
                raise ValueError(f"its compressed voxels end after {count} of {self._num_bytes} bytes")

    def close(self) -> None:
        self._whole = None


def _reader(path: Path) -> Any:
    reader = import_simpleitk(path).ImageFileReader()
    reader.SetFileName(str(path))
    return reader


def _decompressor(header: ItkHeader) -> Any:
    """Returns a decompressor for the voxels, or None if they are not compressed."""
    encoding = "gzip" if not header.is_nrrd and not header.is_raw else header.fields.get("encoding", "").lower()
    if encoding in ("gz", "gzip"):
        return zlib.decompressobj(_ZLIB_OR_GZIP)
    return bz2.BZ2Decompressor() if encoding in ("bz2", "bzip2") else None
