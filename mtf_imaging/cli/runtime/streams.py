"""Handles standard streams that are closed, cannot encode a case name, or have lost their terminal."""

import contextlib
import errno
import io
import os
import sys
from typing import TextIO

from mtf_imaging.jobs.processes.stop_signals import StopSignals

_NAMES = ("stdin", "stdout", "stderr")


def prepare() -> None:
    """Prepares the standard streams of this process.

    - Each closed stream becomes the null device. Otherwise, the next file that the process opens would get the stream's
      number: if standard error is closed, log lines of C++ code would be written into a results file.
    - Characters that a stream cannot encode are escaped.
    - Output to a lost terminal is dropped, so that a run can save a checkpoint.
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
    with contextlib.suppress(AttributeError, ValueError, OSError):  # a different class in a notebook or a test
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr, attr-defined]


class _Survivor(io.FileIO):
    """A file that drops output to a lost terminal, and all failing output after a signal has stopped the run.

    A lost connection closes the terminal, sends SIGHUP and closes the other end of a pipe, in any order.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._is_terminal = os.isatty(number)  # a lost terminal is no longer a terminal

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not (self._is_terminal and error.errno == errno.EIO) and not StopSignals.has_arrived:
                raise
            return memoryview(data).nbytes


def _survivor(stream: io.TextIOWrapper) -> TextIO:
    """Returns a stream with the same file and options as `stream`."""
    stream.flush()
    raw = _Survivor(stream.fileno())
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # type: ignore[arg-type]  as Python's own streams
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
