"""Ends this process although its main thread is blocked in C++ code that no exception reaches."""

import contextlib
import os
import sys
import threading
from typing import NoReturn

# A request often arrives twice: directly from a terminal or scheduler, and again through the process launcher.
SAME_REQUEST = 1.0  # seconds between two signals that may be one request
_FLUSH = 1.0  # seconds to write the rest of the output, whose reader may be stopped


def leave(code: int, message: str = "") -> NoReturn:
    """Ends this process at once, without `finally` blocks and exit handlers.

    Args:
      code: the exit code.
      message: a line for stderr, or "".
    """
    say(message)
    with contextlib.suppress(RuntimeError):  # no memory for a thread, or Python is about to exit
        flush = threading.Thread(target=sys.stdout.flush, daemon=True)
        flush.start()
        flush.join(_FLUSH)
    os._exit(code)


def say(message: str) -> None:
    """Writes a line to stderr, below a progress bar. It may interrupt another write to stderr."""
    if message:
        with contextlib.suppress(OSError):  # the terminal is closed, or nobody reads the pipe
            os.write(2, f"\n{message}\n".encode(errors="backslashreplace"))
