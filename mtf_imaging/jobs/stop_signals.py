"""Signals that ask a run to end: it saves a checkpoint first, so that the same command goes on from there."""

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

from mtf_imaging.errors import Interrupted

# What schedulers send before they take a machine away, and Ctrl-C.
_CALLED = {"SIGTERM": "SIGTERM", "SIGUSR1": "SIGUSR1", "SIGINT": "Ctrl-C"}
# The same request often comes twice: from a scheduler to the process, and once more through its launcher.
_SAME_REQUEST = 1.0  # seconds


class _Stop(BaseException):
    """Ends what cannot be asked to. No `except Exception` on the way may take it for a failure of its own."""


class StopSignals:
    """Handles the signals that ask a run to end, within the block.

    The first ends the run at once as long as nobody has called `reason`: there is nothing to save yet. From then on it
    is noted, for `training.loop.train` to ask before each step. A second one does what it does without this class.

    The block raises `Interrupted`, or `KeyboardInterrupt` where it was Ctrl-C. Other threads than the main one get no
    signals; in them it does nothing.
    """

    def __init__(self) -> None:
        self._came: tuple[str, float] | None = None  # (name, when)
        self._is_asked = False
        self._before: dict[int, Any] = {}

    def reason(self) -> str | None:
        """Why to end, or None."""
        self._is_asked = True
        return self._came and self._came[0]

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _CALLED if hasattr(signal, name)):
                # Shells have what they run in the background ignore Ctrl-C: it is meant for something else.
                if number != signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._came is not None and kind is _Stop:
            error = Interrupted(f"{self._came[0]}: stopped before its first step. The same command starts it again.")
        elif not isinstance(error, Interrupted):
            return
        if self._came and self._came[0] == _CALLED["SIGINT"]:
            raise KeyboardInterrupt(str(error)) from None
        raise error from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._came is None:
            self._came = _CALLED[signal.Signals(number).name], time.monotonic()
            if not self._is_asked:
                raise _Stop
            # Not through Python's own buffers, which the signal may have found half full; below the progress bar.
            text = f"\n{self._came[0]}: saves a checkpoint after this step and ends; a second signal ends it at once.\n"
            os.write(2, text.encode())
        elif time.monotonic() - self._came[1] > _SAME_REQUEST:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
