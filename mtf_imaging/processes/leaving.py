"""Ends this process although a thread, or the main thread itself, is blocked in C++ code that no exception reaches."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

# A request often arrives twice: directly from a terminal or scheduler, and again through the process launcher.
SAME_REQUEST = 1.0  # seconds between two signals that may be one request
_FLUSH = 1.0  # seconds to write the rest of the output, whose reader may be stopped
_EVERY = 0.1  # seconds per wait; Python handles signals between waits
_Result = TypeVar("_Result")
_threads: list[threading.Thread] = []


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


def call(function: Callable[[], _Result], timeout: float) -> _Result:
    """Calls a function that may block in C++ code, and returns its result.

    The function runs in another thread, so that signals and the time limit end the wait. A blocked thread remains; see
    `is_blocked`.

    Args:
      function: the function.
      timeout: the time limit in seconds.

    Raises:
      TimeoutError: the function has not returned in time.
      Exception: any exception of the function.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="call")
    thread.start()
    _threads.append(thread)
    end = time.monotonic() + timeout
    while thread.is_alive():
        if time.monotonic() > end:
            raise TimeoutError(f"no result within {timeout:g} s")
        thread.join(_EVERY)
    if errors:
        raise errors[0]
    return results[0]


def is_blocked() -> bool:
    """Returns whether a function started by `call` is still running. Such a process must end with `leave`."""
    return any(thread.is_alive() for thread in _threads)
