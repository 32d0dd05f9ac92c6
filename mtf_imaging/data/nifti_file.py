"""A NIfTI file, opened by what it holds: names lie about compression, and headers about sizes."""

import contextlib
import gzip
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

from mtf_imaging.data.reading import access_named
from mtf_imaging.errors import DataError

_GZIP = b"\x1f\x8b"  # what every gzip file begins with
_INFLATED = 1032  # what a byte of a gzip file can become at most, by the format
_KINDS = (nibabel.Nifti1Image, nibabel.Nifti2Image)
_HEADER_BYTES = 540  # of the longer header


def is_compressed(path: Path) -> bool:
    """Whether a file is one of gzip, by its first bytes."""
    with open(path, "rb") as file:
        return file.read(len(_GZIP)) == _GZIP


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to read what it holds, compressed or not, whatever its name says."""
    with gzip.open(path) if is_compressed(path) else open(path, "rb") as file:
        yield file


def open_image(path: Path) -> nibabel.Nifti1Image:
    """Reads the header of a NIfTI file; `StoredValues` reads its voxels.

    Raises:
      DataError: the file may not be read, is damaged or no NIfTI.
    """
    with damage_named(path), opened(path) as file:
        start = file.read(_HEADER_BYTES)
        file.seek(0)
        for kind in _KINDS:
            if kind.header_class.may_contain_header(start):
                return kind.from_file_map({"image": FileHolder(fileobj=file)})
        raise ImageFileError("it does not begin with a NIfTI header")


def check_room(image: nibabel.Nifti1Image, path: Path) -> None:
    """Checks that a file is large enough for the voxels of its header, before memory is taken for them.

    Raises:
      DataError: it is not.
    """
    dtype, size = image.dataobj.dtype, path.stat().st_size
    needed = image.dataobj.offset + math.prod(map(int, image.shape)) * dtype.itemsize
    compressed = is_compressed(path)
    if needed > size * (_INFLATED if compressed else 1):
        voxels = f"{' x '.join(map(str, image.shape))} voxels of {dtype.newbyteorder('=')}, {needed} bytes"
        has = f"{size} compressed bytes, which cannot hold them" if compressed else f"{size} bytes"
        raise DataError(
            f"{path}: cannot be read as NIfTI: its header says {voxels}, and the file has {has}: truncated, or the "
            "header is damaged. Fix: fetch it again."
        )


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turns what nibabel, gzip and numpy raise for damaged files into a DataError that names the file."""
    try:
        with access_named(path):
            yield
    except DataError:
        raise
    # ValueError is a short uncompressed file.
    except (ImageFileError, HeaderDataError, WrapStructError, OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as NIfTI; truncated or another format? ({error}). Fix: fetch it again."
        ) from error
