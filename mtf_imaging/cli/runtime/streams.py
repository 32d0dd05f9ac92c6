"""Standard streams that a parent has closed, or that cannot encode the name of a case."""

import contextlib
import os
import sys
from typing import TextIO

_NAMES = ("stdin", "stdout", "stderr")


def prepare() -> None:
    """Opens the null device for each closed standard stream, and escapes characters that a stream cannot encode.

    The next file that a process opens gets the lowest free number. If standard error is closed, a file of results would
    get its number, and log lines of C++ code would be written into it.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets this number, the lowest free one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        _escape(stream)


def _escape(stream: TextIO) -> None:
    with contextlib.suppress(AttributeError, ValueError, OSError):  # another class of a notebook or a test
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr, attr-defined]
