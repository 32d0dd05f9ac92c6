"""Checks compressed voxels in NRRD and MetaImage files, because SimpleITK does not report damage."""

import bz2
import zlib
from typing import Any

from mtf_imaging.data.listing.itk_headers import ItkHeader
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
_BLOCK_BYTES = 1 << 20
_SKIPS = ("byteskip", "lineskip")  # fields that skip data before the voxels; our files lack them


def check_compressed(header: ItkHeader, num_bytes: int) -> None:
    """Decompresses the voxels of a file, block by block, and checks their number and checksum.

    Args:
      header: the header of the file; nothing is checked if its voxels are not compressed.
      num_bytes: the size of the voxels in bytes.

    Raises:
      DataError: the voxels are truncated or damaged.
    """
    stream = _decompressor(header)
    if stream is None or any(header.fields.get(key, "0") != "0" for key in _SKIPS):
        return
    count, error = 0, "they end too early"
    with reading_named(header.data), open(header.data, "rb") as file:
        file.seek(header.offset)
        try:
            while not stream.eof and (block := file.read(_BLOCK_BYTES)):
                while block and not stream.eof:
                    count += len(_part(stream, block))
                    block = getattr(stream, "unconsumed_tail", b"")
        except (zlib.error, OSError) as damage:
            error = str(damage)
    if not stream.eof or count != num_bytes:
        if stream.eof:
            error = f"they have {count} bytes, not {num_bytes}"
        raise DataError(
            f"{header.path}: cannot be read as NRRD or MetaImage: its compressed voxels are damaged ({error}). "
            "Fix: fetch the file again."
        )


def _decompressor(header: ItkHeader) -> Any:
    """Returns a decompressor for the voxels, or None if they are not compressed."""
    if not header.is_nrrd:
        return None if header.is_raw else zlib.decompressobj(_ZLIB_OR_GZIP)
    encoding = header.fields.get("encoding", "").lower()
    if encoding in ("gz", "gzip"):
        return zlib.decompressobj(_ZLIB_OR_GZIP)
    return bz2.BZ2Decompressor() if encoding in ("bz2", "bzip2") else None


def _part(stream: Any, block: bytes) -> bytes:
    if isinstance(stream, bz2.BZ2Decompressor):
        return stream.decompress(block)
    return stream.decompress(block, _BLOCK_BYTES)
