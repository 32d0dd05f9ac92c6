"""Opens DICOM files whose deflated data and pixels fit into memory."""

import math
import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtf_imaging.data.formats.packages import import_pydicom
from mtf_imaging.files.memory import INFLATED, check_room
from mtf_imaging.files.reading import Fault

_DEFLATED = b"1.2.840.10008.1.2.1.99"
_META_BYTES = 1 << 12  # the file meta information, which names the transfer syntax, is shorter
_META_START = 144  # the group that follows the preamble, the signature and the length of this group
_BLOCK_BYTES = 1 << 16
# The largest ratio of a compression: run lengths encode 128 bytes in 2, and planes of a single value in other formats
# reach 10,000.
_RLE = "1.2.840.10008.1.2.5"
_RATIOS = {_RLE: 64, _DEFLATED.decode(): INFLATED}
_OTHER_RATIO = 10_000
# The size in a stream of JPEG 2000, at the start of a fragment, and perhaps in a JP2 file.
_J2K_SIZE = re.compile(rb"\xfe\xff\x00\xe0.{4}(?:\0\0\0\x0cjP  .{0,9999}?)?\xff\x4f\xff\x51.{4}(.{8})", re.DOTALL)
_LEAST_BYTES = 1 << 28  # of pixels, that a small file can contain with such a ratio: it consists mostly of its header


def read_dicom(path: Path, **options: Any) -> Any:
    """Reads a file with `pydicom.dcmread`, which inflates a deflated file as a whole.

    Raises:
      Fault: the deflated data of the file do not fit into memory.
    """
    pydicom = import_pydicom(path)
    if is_deflated(path):
        meta = pydicom.filereader.read_file_meta_info(path)
        with open(path, "rb") as file:
            file.seek(_META_START + meta.FileMetaInformationGroupLength)
            stream, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
            while not stream.eof and (block := stream.unconsumed_tail or file.read(_BLOCK_BYTES)):
                size += len(stream.decompress(block, INFLATED * _BLOCK_BYTES))
                check_room(f"deflated data of at least {size} bytes", 0, 0, at_once=3 * size)
    return pydicom.dcmread(path, **options)


def is_deflated(path: Path) -> bool:
    """Returns whether a file is deflated as a whole, so that it has no place for single frames."""
    with open(path, "rb") as file:
        return _DEFLATED in file.read(_META_BYTES)


def flat_frames(header: object) -> Iterator[Any]:
    """Yields a header for each frame of a file, with the elements of its functional groups (DICOM PS3.3, C.7.6.16).

    A file without functional groups has one frame.
    """
    shared, frames = (header.get(f"{name}FunctionalGroupsSequence") or () for name in ("Shared", "PerFrame"))
    if not frames:
        yield header
    for frame in frames:
        flat = type(frame)()
        flat.update(header)
        for element in (element for groups in (*shared, frame) for element in groups):
            if element.VR == "SQ" and element.value:
                flat.update(element.value[0])
        yield flat


def check_pixels(path: Path, header: Any, frames: int = 1) -> None:
    """Checks that the file can contain the pixels that its header declares, and that they fit into memory."""
    rows, columns, bits = int(header.Rows), int(header.Columns), int(header.BitsAllocated)
    needed, size, syntax = frames * rows * columns * bits // 8, path.stat().st_size, header.file_meta.TransferSyntaxUID
    other = max(_OTHER_RATIO, _LEAST_BYTES // size)
    ratio = _RATIOS.get(syntax, other) if syntax.is_encapsulated or syntax.is_deflated else 1
    declared = f"{rows} rows and {columns} columns of {bits} bits ({needed} bytes)"
    at_once = max(3 * needed, ratio * size if syntax == _RLE and size > 2 * needed else 0)  # pydicom decodes it all
    check_room(f"{frames} frames of " * (frames > 1) + declared, needed, size, ratio, at_once)
    if not syntax.is_encapsulated:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for match in _J2K_SIZE.finditer(data):  # GDCM decodes streams of any size
            if math.prod(shape := struct.unpack(">2L", match[1])) > rows * columns:
                raise Fault(f"its header declares {declared}, but a frame has {shape[1]} x {shape[0]} pixels")
