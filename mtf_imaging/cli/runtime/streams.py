"""Standard streams that a parent has closed, that cannot encode the name of a case, or whose terminal is lost."""

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO

from mtf_imaging.jobs.stop_signals import StopSignals

_NAMES = ("stdin", "stdout", "stderr")


def prepare() -> None:
    """Prepares the standard streams of this process.

    - Each closed stream becomes the null device. The next file that a process opens gets the lowest free number. If
      standard error is closed, a file of results would get its number, and log lines of C++ code would be written into
      it.
    - Characters that a stream cannot encode are escaped.
    - What is written to a lost terminal is dropped, so that a run can save a checkpoint.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets this number, the lowest free one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    for name in _NAMES[1:]:
        stream = getattr(sys, name)
        _escape(stream)
        # Not a stream of a notebook or a test.
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _survivor(stream))


def _escape(stream: TextIO) -> None:
    with contextlib.suppress(AttributeError, ValueError, OSError):  # another class of a notebook or a test
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr, attr-defined]


class _Survivor(io.FileIO):
    """A file that drops what it cannot write to a lost terminal, or to any place after a signal has stopped the run.

    A lost connection closes the terminal, sends SIGHUP and ends the other side of a pipe, in any order.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._is_terminal = os.isatty(number)  # a lost terminal no longer is one

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not (self._is_terminal and error.errno == errno.EIO) and not StopSignals.has_arrived:
                raise
            return memoryview(data).nbytes


def _survivor(stream: io.TextIOWrapper) -> TextIO:
    """Returns a stream that writes to the same file as `stream` in the same way."""
    stream.flush()
    raw = _Survivor(stream.fileno())
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # type: ignore[arg-type]  as Python's own streams
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
