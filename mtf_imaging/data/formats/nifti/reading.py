"""Reads NIfTI and FreeSurfer files by content, because names may be wrong about compression, headers about sizes."""

import contextlib
import functools
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import nibabel
import numpy as np
from nibabel.arrayproxy import ArrayProxy
from nibabel.filebasedimages import ImageFileError
from nibabel.freesurfer.mghformat import DATA_OFFSET, MGHHeader

from mtf_imaging.data.formats.label_names import names_in_nifti, names_in_tables
from mtf_imaging.data.formats.nifti.gzip_stream import GZIP, open_gzip
from mtf_imaging.data.formats.nifti.header_checks import check_numbers, warn_of_conflicts
from mtf_imaging.data.images.geometry import Geometry, MadeGeometry, affine_in_mm, check_axes
from mtf_imaging.data.images.lost_geometry import why_lost
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.listing.image_formats import MGH
from mtf_imaging.files.memory import INFLATED, check_room
from mtf_imaging.files.reading import Fault, damage_named

_KIND = "NIfTI or FreeSurfer"
_KINDS = (nibabel.Nifti1Header, nibabel.Nifti2Header)
_HEADER_BYTES = 544  # the longest header, and the flag of its extensions
_FREESURFER = bytes((0, 0, 0, 1))  # its only version
_PLACED, _PLACED_AT = "goodRASFlag", 28  # a field of FreeSurfer, and its first byte
_BLOCK_BYTES = 1 << 21
_BYTES_OF_VALUE = 32  # of a voxel in the planes that are read at a time: float64, with copies
_SURPLUS_BYTES = 1 << 26  # after the voxels; a compressed file can expand to a thousand times its size


def open_nifti(path: Path) -> tuple[list[Stored], Geometry]:
    """Reads the header of a file; the geometry is not corrected.

    Args:
      path: a .nii, .nii.gz, .mgh or .mgz file.

    Returns:
      The stored numbers of each channel along the fourth axis, or along the fifth axis as in ITK vector images; and the
      geometry.

    Raises:
      DataError: the file is missing, damaged or of another format, or its affine is singular or not finite.
    """
    with damage_named(path, _KIND):
        header, is_stream = read_header(path), _is_compressed(path)
        has_ending = path.name.lower().endswith(_compressed(path))
        if is_stream != has_ending:
            what = "not compressed, but its name ends" if has_ending else "compressed, but its name does not end"
            warn_once(f"{path}: this file is {what} in {_compressed(path)}; it is read by its content.")
        values = ArrayProxy(str(path), header)
        dtype, shape = values.dtype, _with_planes(tuple(map(int, values.shape)))
        if shape != values.shape:
            header.set_data_shape(shape)
        if dtype.kind not in "iuf":
            raise Fault(f"voxels are of type {dtype}, not plain numbers", "store one number (HU or label) per voxel")
        if len(shape) < 3 or min(shape) < 1 or sum(size != 1 for size in shape[3:]) > 1 or math.prod(shape[5:]) > 1:
            what = f"shape {shape} is neither a 3-D volume nor a stack of channels"
            raise Fault(what, "store the axes x, y, z and, for several channels, the channels")
        needed, size = values.offset + math.prod(map(int, shape)) * dtype.itemsize, path.stat().st_size
        declared = f"{' x '.join(map(str, shape))} voxels of {dtype.newbyteorder('=')} ({needed} bytes)"
        at_once = math.prod(shape[:2]) * _BYTES_OF_VALUE
        check_room(declared, needed, size, INFLATED if is_stream else 1, at_once)
        if isinstance(header, MGHHeader):
            is_placed = bool(header[_PLACED])
            doubt = None if is_placed else f"its header states no place ({_PLACED} is 0)"
            geometry, names = MadeGeometry.of(shape[:3], header.get_affine(), doubt=doubt, has_size=is_placed), {}
        else:
            geometry = Geometry(header, affine_in_mm(header))
            names = names_in_nifti(header.extensions) or names_in_tables(path)
            check_axes(geometry.affine)
            if not why_lost(geometry):
                warn_of_conflicts(geometry, path)
    scale = float(values.slope), float(values.inter)
    planes = [functools.partial(NiftiPlanes, path, values, number) for number in range(math.prod(shape[3:]))]
    common = {"scale": scale, "is_stream": is_stream, "names": names}
    return [Stored(path, shape[:3], values.dtype, each, **common) for each in planes], geometry


def read_header(path: Path) -> nibabel.Nifti1Header | MGHHeader:
    """Reads the header of a NIfTI or FreeSurfer file.

    Raises:
      DataError: the file cannot be read, is damaged or has another format, or its header has unusable numbers.
    """
    with damage_named(path, _KIND), _opened(path) as file:
        start = file.read(_HEADER_BYTES)
        for kind in _KINDS:
            if kind.may_contain_header(start):
                offset = check_numbers(kind(start[: kind.sizeof_hdr], check=False), path)
                ratio = INFLATED if _is_compressed(path) else 1
                check_room(f"{offset} bytes before its voxels", offset, path.stat().st_size, ratio, 3 * offset)
                # From the file, nibabel would read extensions of any size.
                return kind.from_fileobj(io.BytesIO(start + file.read(max(0, offset - len(start)))))
        if start.startswith(_FREESURFER):
            header = MGHHeader(start[:DATA_OFFSET])  # from the file, nibabel would decompress all voxels
            (header[_PLACED],) = np.frombuffer(start, ">i2", 1, _PLACED_AT)  # nibabel sets it
            return header
        raise ImageFileError("it does not begin with a header of NIfTI or FreeSurfer")


class NiftiPlanes(Planes):
    """Reads planes of a channel from a file, which stays open between calls.

    Read compressed files in increasing order: an earlier plane requires decompression from the start.

    Args:
      path: the file.
      values: the type, shape and place of its voxels.
      channel: index of the channel.
    """

    def __init__(self, path: Path, values: ArrayProxy, channel: int) -> None:
        self._path, self._values, self._channel = path, values, channel
        self._stack = contextlib.ExitStack()
        self._file: BinaryIO | None = None

    def read(self, planes: slice) -> np.ndarray:
        width, height, depth = _with_planes(self._values.shape)[:3]
        plane, dtype = width * height, self._values.dtype
        with damage_named(self._path, _KIND):
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
        with damage_named(self._path, _KIND):
            while surplus <= _SURPLUS_BYTES and (block := self._open().read(_BLOCK_BYTES)):
                surplus += len(block)
        if surplus > _SURPLUS_BYTES:
            what = f"more than {_SURPLUS_BYTES} bytes follow the voxels that its header declares"
            warn_once(f"{self._path}: {what}; they are ignored, and its checksum is not checked.")

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


def _compressed(path: Path) -> str:
    """Returns the ending of compressed files of a format."""
    return ".gz" if MGH.stem(path) is None else ".mgz"


def _is_compressed(path: Path) -> bool:
    """Returns whether a file starts with the gzip signature."""
    with open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading, and decompresses it if its content is gzip; the file name is ignored."""
    with open_gzip(path) if _is_compressed(path) else open(path, "rb") as file:
        yield file
