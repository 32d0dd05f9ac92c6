"""Reads NIfTI files by their content, because file names may be wrong about compression, and headers about sizes."""

import contextlib
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.fileholders import FileHolder

from mtf_imaging.data.formats.label_names import names_in_nifti
from mtf_imaging.data.formats.nifti.gzip_stream import GZIP, open_gzip
from mtf_imaging.data.formats.nifti.header_checks import check_numbers, warn_of_conflicts
from mtf_imaging.data.images.geometry import Geometry, affine_in_mm, check_axes
from mtf_imaging.data.images.lost_geometry import why_lost
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.files.memory import INFLATED, check_room
from mtf_imaging.files.reading import Fault, damage_named

_KINDS = (nibabel.Nifti1Image, nibabel.Nifti2Image)
_HEADER_BYTES = 540  # the longer of the two headers
_BLOCK_BYTES = 1 << 21
_BYTES_OF_VALUE = 32  # of a voxel in the planes that are read at a time: float64, with copies
_SURPLUS_BYTES = 1 << 26  # after the voxels; a compressed file can expand to a thousand times its size


def open_nifti(path: Path) -> tuple[list[Stored], Geometry]:
    """Reads the header of a file; the geometry is not corrected.

    Args:
      path: a .nii or .nii.gz file.

    Returns:
      The stored numbers of each channel along the fourth axis, or along the fifth axis as in ITK vector images; and the
      geometry.

    Raises:
      DataError: the file is missing, damaged or of another format, or its affine is singular or not finite.
    """
    with damage_named(path, "NIfTI"):
        image, is_stream = open_image(path), _is_compressed(path)
        has_ending = path.name.lower().endswith(".gz")
        if is_stream != has_ending:
            what = "not compressed, but its name ends" if has_ending else "compressed, but its name does not end"
            warn_once(f"{path}: this file is {what} in .gz; it is read by its content.")
        dtype, values, header = image.get_data_dtype(), image.dataobj, image.header.copy()
        shape = _with_planes(image.shape)
        if shape != image.shape:
            header.set_data_shape(shape)
        if dtype.kind not in "iuf":
            raise Fault(f"voxels are of type {dtype}, not plain numbers", "store one number (HU or label) per voxel")
        if len(shape) < 3 or min(shape) < 1 or sum(size != 1 for size in shape[3:]) > 1 or math.prod(shape[5:]) > 1:
            raise Fault(
                f"shape {shape} is neither a 3-D volume nor a stack of channels",
                "store the axes x, y, z and, for several channels, the channels",
            )
        needed, size = values.offset + math.prod(map(int, shape)) * dtype.itemsize, path.stat().st_size
        declared = f"{' x '.join(map(str, shape))} voxels of {dtype.newbyteorder('=')} ({needed} bytes)"
        at_once = math.prod(shape[:2]) * _BYTES_OF_VALUE
        check_room(declared, needed, size, INFLATED if is_stream else 1, at_once)
        affine = affine_in_mm(header)
        check_axes(affine)
        geometry = Geometry(header, affine)
        if not why_lost(geometry):
            warn_of_conflicts(geometry, path)
        names = names_in_nifti(image.header.extensions)
    scale = float(values.slope), float(values.inter)
    planes = [functools.partial(NiftiPlanes, path, image, number) for number in range(math.prod(shape[3:]))]
    common = {"scale": scale, "is_stream": is_stream, "names": names}
    return [Stored(path, shape[:3], values.dtype, each, **common) for each in planes], geometry


def open_image(path: Path) -> nibabel.Nifti1Image:
    """Reads the header of a NIfTI file; `NiftiPlanes` reads its voxels.

    Raises:
      DataError: the file cannot be read, is damaged or is not NIfTI, or its header has unusable numbers.
    """
    with damage_named(path, "NIfTI"), _opened(path) as file:
        start = file.read(_HEADER_BYTES)
        file.seek(0)
        for kind in _KINDS:
            if kind.header_class.may_contain_header(start):
                check_numbers(kind.header_class.from_fileobj(file, check=False), path)
                file.seek(0)
                return kind.from_file_map({"image": FileHolder(fileobj=file)})
        raise ImageFileError("it does not begin with a NIfTI header")


class NiftiPlanes(Planes):
    """Reads planes of a channel from a file, which stays open between calls.

    Read compressed files in increasing order: an earlier plane requires decompression from the start.

    Args:
      path: the file.
      image: its header.
      channel: index of the channel.
    """

    def __init__(self, path: Path, image: nibabel.Nifti1Image, channel: int) -> None:
        self._path, self._values, self._channel = path, image.dataobj, channel
        self._stack = contextlib.ExitStack()
        self._file: BinaryIO | None = None

    def read(self, planes: slice) -> np.ndarray:
        width, height, depth = _with_planes(self._values.shape)[:3]
        plane, dtype = width * height, self._values.dtype
        with damage_named(self._path, "NIfTI"):
            file, count = self._open(), plane * (planes.stop - planes.start)
            first = (self._channel * depth + planes.start) * plane
            file.seek(self._values.offset + first * dtype.itemsize)
            # Raises ValueError if the file ends too early.
            numbers = np.frombuffer(file.read(count * dtype.itemsize), dtype, count)
        return numbers.reshape(width, height, -1, order="F")

    def check_end(self) -> None:
        """Checks the checksum at the end of a compressed file; call it after the last plane has been read.

        The checksum covers all channels, so only the last channel checks it. If far more data follows than the header
        declares, it is not decompressed to its end.
        """
        if self._channel < math.prod(self._values.shape[3:]) - 1 or not _is_compressed(self._path):
            return
        surplus = 0
        with damage_named(self._path, "NIfTI"):
            while surplus <= _SURPLUS_BYTES and (block := self._open().read(_BLOCK_BYTES)):
                surplus += len(block)
        if surplus > _SURPLUS_BYTES:
            warn_once(
                f"{self._path}: more than {_SURPLUS_BYTES} bytes follow the voxels that its header declares; they are "
                "ignored, and its checksum is not checked."
            )

    def close(self) -> None:
        self._file = None
        self._stack.close()

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = self._stack.enter_context(_opened(self._path))
        return self._file


def _with_planes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of an image; one with two axes has one plane."""
    return (*shape, 1) if len(shape) == 2 else shape


def _is_compressed(path: Path) -> bool:
    """Returns whether a file starts with the gzip signature."""
    with open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading, and decompresses it if its content is gzip; the file name is ignored."""
    with open_gzip(path) if _is_compressed(path) else open(path, "rb") as file:
        yield file
