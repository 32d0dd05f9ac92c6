"""Reads text files written by users: UTF-8 with or without a byte order mark, any line endings, limited size."""

import codecs
import stat
from pathlib import Path

from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import access_named, check_not_special, memory_named

MAX_BYTES = 1 << 30  # COCO's instance files have 0.45 GB
_CHUNK = 1 << 16  # bytes of the first read
# UTF-32 comes first, because its byte order mark starts with that of UTF-16.
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_text(path: str | Path) -> str:
    """Reads a text file; line endings become line feeds, and a byte order mark is removed.

    Raises:
      DataError: the file is missing, unreadable, too large, not a regular file, or not text in UTF-8.
    """
    return decode_text(read_regular(path), path)


def read_regular(path: str | Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Reads a regular file. A named pipe or a device, which may never end, is refused.

    Args:
      path: the file.
      max_bytes: the largest size that is read.

    Raises:
      DataError: the file is missing, unreadable, too large, or not a regular file.
    """
    check_regular(path)
    with memory_named(path), access_named(path), open(path, "rb") as file:
        data = file.read(_CHUNK)  # `read` allocates its maximum size in advance
        while len(data) <= max_bytes and (chunk := file.read(max(_CHUNK, len(data)))):
            data += chunk
    if len(data) > max_bytes:
        raise DataError(f"{path}: has more than {max_bytes} bytes, the limit for such a file. Fix: check the path.")
    return data


def check_regular(path: str | Path) -> None:
    """Checks that a path is a regular file or a link to one.

    Raises:
      DataError: the path is missing, unreadable, a folder, a named pipe, a socket or a device.
    """
    with access_named(path):
        mode = Path(path).stat().st_mode
    check_not_special(path)
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: is a folder, not a file. Fix: give the path of a file.")


def decode_text(data: bytes, where: str | Path, kind: str = "text") -> str:
    """Decodes UTF-8 text; line endings become line feeds, and a byte order mark is removed.

    Args:
      data: the bytes.
      where: the file, for messages.
      kind: the kind of the file, for messages.

    Raises:
      DataError: the bytes are not text in UTF-8.
    """
    for mark, name in _OTHER_MARKS.items():
        if data.startswith(mark):
            raise DataError(f"{where}: not a {kind} file in UTF-8, but in {name}. Fix: save the file in UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: not a {kind} file in UTF-8 (byte 0x{data[error.start]:02x} at position {error.start}). "
            "Fix: save the file in UTF-8."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
