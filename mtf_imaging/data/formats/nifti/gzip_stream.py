"""Decompresses gzip files.

Python's gzip module reads zeros after the last stream one by one, and refuses files with other bytes after it. The
program gzip ignores such bytes with a warning.
"""

import io
import zlib
from pathlib import Path

from mtf_imaging.data.images.voxel_values import warn_once

GZIP = b"\x1f\x8b"  # the first bytes of every gzip stream
_FORMAT = 16 + zlib.MAX_WBITS  # for zlib: a gzip stream with its checksum
_BLOCK_BYTES = 1 << 17
_EMPTY_STREAMS = 1000  # consecutive streams without content; a file could hold millions of them


def open_gzip(path: Path) -> io.RawIOBase:
    """Opens a gzip file of one or several streams; the result supports reading and seeking.

    Reads return all requested bytes and decompress no others, so the header of a file with a wrong checksum can be
    read.

    Zeros after the last stream are skipped. Other bytes after it are ignored, with a warning. Reading raises `EOFError`
    if a stream is truncated, and `zlib.error` if it is damaged or its checksum is wrong.
    """
    return _Content(path)


class _Content(io.RawIOBase):
    """The decompressed content of a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  `close` closes it
        self._restart()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position. A move backward decompresses the file again from its start."""
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the size of the content is not known")
        target = offset + (self._position if whence == io.SEEK_CUR else 0)
        if target < 0:
            raise ValueError(f"negative position {target}")
        if target < self._position:
            self._restart()
        while self._position < target and self._next(min(_BLOCK_BYTES, target - self._position)):
            pass
        return self._position

    def readinto(self, buffer) -> int:
        filled = 0
        while filled < len(buffer) and (data := self._next(len(buffer) - filled)):
            buffer[filled : filled + len(data)] = data
            filled += len(data)
        return filled

    def _restart(self) -> None:
        self._file.seek(0)
        self._stream = zlib.decompressobj(_FORMAT)
        self._input = b""
        self._position = self._num_empty = 0
        self._is_empty, self._is_over = True, False

    def _next(self, most: int) -> bytes:
        """Returns 1 to `most` bytes, or no bytes at the end of the file."""
        while most and not self._is_over:
            if self._stream.eof:
                self._next_stream()
                continue
            block = self._input or self._file.read(_BLOCK_BYTES)
            data = self._stream.decompress(block, most)
            self._input = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if data:
                self._is_empty = False
                self._position += len(data)
                return data
            if not block and not self._stream.eof:
                raise EOFError("the compressed data ends too early")
        return b""

    def _next_stream(self) -> None:
        """Moves to the next stream, or to the end if there is none."""
        rest = self._input.lstrip(b"\0")
        while not rest and (block := self._file.read(_BLOCK_BYTES)):
            rest = block.lstrip(b"\0")
        if len(rest) == 1:
            rest += self._file.read(1)
        self._num_empty = self._num_empty + 1 if self._is_empty else 0
        if rest.startswith(GZIP) and self._num_empty < _EMPTY_STREAMS:
            self._stream, self._input, self._is_empty = zlib.decompressobj(_FORMAT), rest, True
            return
        self._is_over = True
        if rest:
            count = len(rest) + self._path.stat().st_size - self._file.tell()
            what = "bytes follow the compressed data, which is complete and has the right checksum; they are ignored"
            warn_once(f"{self._path}: {count} {what}.")
