"""Signals that stop a run: the run saves a checkpoint first, so the same command can resume it."""

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

from mtf_imaging.errors import Interrupted

# The signals that schedulers send before they stop a job, and Ctrl-C.
_NAMES = {"SIGTERM": "SIGTERM", "SIGUSR1": "SIGUSR1", "SIGINT": "Ctrl-C"}
# One request often arrives twice: from the scheduler directly, and again through the launcher of the process.
_SAME_REQUEST = 1.0  # seconds


class _Stop(BaseException):
    """Stops code that does not poll for signals; a `BaseException`, so that no `except Exception` catches it."""


class StopSignals:
    """Handles the signals that stop a run, within the block.

    Until the first call of `reason`, a signal ends the run at once, because there is nothing to save. Afterwards,
    `reason` returns the name of the signal, and `training.loop.train` checks it before each step. A second signal has
    the same effect as without this class.

    The block raises `Interrupted`, or `KeyboardInterrupt` for Ctrl-C. Python delivers signals only to the main thread,
    so the class has no effect in other threads.

    Args:
      stopped: what the message of `Interrupted` says about a signal before the first call of `reason`.
    """

    def __init__(self, stopped: str = "stopped before the first step. Run the same command to start again.") -> None:
        self._stopped = stopped
        self._signal: tuple[str, float] | None = None  # (name, time of arrival)
        self._is_asked = False
        self._before: dict[int, Any] = {}

    def reason(self) -> str | None:
        """Returns the name of the signal that arrived, or None."""
        self._is_asked = True
        return self._signal and self._signal[0]

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
                # Shells make background processes ignore Ctrl-C, which is meant for the foreground process.
                if number != signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._signal is not None and kind is _Stop:
            error = Interrupted(f"{self._signal[0]}: {self._stopped}")
        elif not isinstance(error, Interrupted):
            return
        if self._signal and self._signal[0] == _NAMES["SIGINT"]:
            raise KeyboardInterrupt(str(error)) from None
        raise error from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._signal is None:
            self._signal = _NAMES[signal.Signals(number).name], time.monotonic()
            if not self._is_asked:
                raise _Stop
            # Write directly: the signal may have interrupted a write to Python's buffers. Start below the progress bar.
            text = "the run saves a checkpoint after this step and ends; a second signal ends it at once."
            os.write(2, f"\n{self._signal[0]}: {text}\n".encode())
        elif time.monotonic() - self._signal[1] > _SAME_REQUEST:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
