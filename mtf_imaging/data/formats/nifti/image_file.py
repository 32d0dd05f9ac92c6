"""Opens NIfTI files by their content.

File names may be wrong about compression, and headers about sizes.
"""

import contextlib
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import nibabel
from nibabel.filebasedimages import ImageFileError
from nibabel.fileholders import FileHolder
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from mtf_imaging.data.formats.nifti.gzip_stream import GZIP, open_gzip
from mtf_imaging.data.formats.nifti.header_checks import check_numbers
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named

_INFLATED = 1032  # the largest expansion ratio of the gzip format
_KINDS = (nibabel.Nifti1Image, nibabel.Nifti2Image)
_NIBABEL_ERRORS = (ImageFileError, HeaderDataError, WrapStructError)
_HEADER_BYTES = 540  # the longer of the two headers


def is_compressed(path: Path) -> bool:
    """Returns whether a file starts with the gzip signature."""
    with open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading, and decompresses it if its content is gzip; the file name is ignored."""
    with open_gzip(path) if is_compressed(path) else open(path, "rb") as file:
        yield file


def open_image(path: Path) -> nibabel.Nifti1Image:
    """Reads the header of a NIfTI file; `StoredValues` reads its voxels.

    Raises:
      DataError: the file cannot be read, is damaged or is not NIfTI, or its header has unusable numbers.
    """
    with damage_named(path), opened(path) as file:
        start = file.read(_HEADER_BYTES)
        file.seek(0)
        for kind in _KINDS:
            if kind.header_class.may_contain_header(start):
                check_numbers(kind.header_class.from_fileobj(file, check=False), path)
                file.seek(0)
                return kind.from_file_map({"image": FileHolder(fileobj=file)})
        raise ImageFileError("it does not begin with a NIfTI header")


def check_room(image: nibabel.Nifti1Image, path: Path) -> None:
    """Checks that a file is large enough for the voxels that its header declares.

    Call it before you allocate memory for the voxels.

    Raises:
      DataError: the file is too small.
    """
    dtype, size = image.dataobj.dtype, path.stat().st_size
    needed = image.dataobj.offset + math.prod(map(int, image.shape)) * dtype.itemsize
    compressed = is_compressed(path)
    if needed > size * (_INFLATED if compressed else 1):
        voxels = f"{' x '.join(map(str, image.shape))} voxels of {dtype.newbyteorder('=')} ({needed} bytes)"
        limit = f"{size} compressed bytes, too few even at the highest compression" if compressed else f"{size} bytes"
        raise DataError(
            f"{path}: cannot be read as NIfTI: its header declares {voxels}, but the file has {limit}. The file is "
            "truncated, or its header is damaged. Fix: fetch the file again."
        )


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Converts nibabel, gzip and NumPy errors about a damaged file into a DataError that names the file."""
    try:
        with reading_named(path):
            yield
    except DataError:
        raise
    # NumPy raises ValueError if an uncompressed file is too short, and header values can be too large for Python.
    except (*_NIBABEL_ERRORS, OSError, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: cannot be read as NIfTI: it is damaged or has another format ({error}). Fix: fetch the file "
            "again."
        ) from error
