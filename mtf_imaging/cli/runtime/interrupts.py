"""Ctrl-C: the first one raises `KeyboardInterrupt`, and a second one ends the process at once."""

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn, Self

from mtf_imaging.engine.processes.leaving import SAME_REQUEST, leave, say

EXIT_CODE = 130  # as in a shell: 128 plus the number of SIGINT


class Interrupts:
    """Handles Ctrl-C within the block, in the main thread.

    An ignored Ctrl-C stays ignored; a blocked Ctrl-C, as in a new process started by `launch`, is unblocked. The
    handlers of `StopSignals` and others replace this one within their blocks.

    Args:
      stays: whether the handler stays after the block, until Python has exited. Ctrl-C then ends the process at once.

    Attributes:
      has_arrived: whether Ctrl-C has raised a `KeyboardInterrupt`, which a library may have replaced with another
        error.
    """

    def __init__(self, stays: bool) -> None:
        self._stays, self._is_over = stays, False
        self._first: float | None = None  # time of the first Ctrl-C
        self._before: Any = None
        self._hook = sys.unraisablehook

    @property
    def has_arrived(self) -> bool:
        return self._first is not None

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._show_unraisable
        if is_main and hasattr(signal, "pthread_sigmask"):  # not Windows
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        if self._before is not None and not self._stays:
            signal.signal(signal.SIGINT, self._before)
            sys.unraisablehook = self._hook

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_first, self._first = self._first is None, self._first or time.monotonic()
        if is_first and not self._is_over:
            raise KeyboardInterrupt
        if is_first or time.monotonic() - self._first > SAME_REQUEST:
            end_at_once(number)

    def _show_unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Ends the process after a `KeyboardInterrupt` that Python cannot raise, for instance in a `__del__`."""
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            end_at_once(signal.SIGINT)
        self._hook(unraisable)


def end_at_once(number: int) -> NoReturn:
    """Ends this process because of a signal, with one line and no traceback.

    Args:
      number: the signal number. Ctrl-C ends the process with exit code 130, other signals kill it.
    """
    if number == signal.SIGINT:
        leave(EXIT_CODE, "mtf-imaging: interrupted.")
    say(f"mtf-imaging: {signal.Signals(number).name}: ended at once.")
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    leave(128 + number)  # only if the signal is blocked
