"""Signals that stop a run: the run saves a checkpoint first, so the same command can resume it."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ClassVar, Self

from mtf_imaging.engine.processes.leaving import SAME_REQUEST, say
from mtf_imaging.errors import Interrupted

# The signals for a scheduler's warning, the loss of the terminal, and Ctrl-C.
NAMES = {"SIGTERM": "SIGTERM", "SIGUSR1": "SIGUSR1", "SIGHUP": "SIGHUP", "SIGINT": "Ctrl-C"}
# Shells make background processes ignore Ctrl-C, which is meant for the foreground process, and nohup ignores SIGHUP.
_MAY_BE_IGNORED = ("SIGINT", "SIGHUP")


class _Stop(BaseException):
    """Stops code that does not poll for signals; a `BaseException`, so that no `except Exception` catches it."""


class StopSignals:
    """Handles the signals that stop a run, within the block.

    Until the first call to `reason`, a signal ends the run at once, because there is nothing to save. Afterwards,
    `reason` returns the name of the signal, and `training.loop.train` checks it before each step. A second signal has
    the same effect as without this class, or calls `second`.

    The block raises `Interrupted`, or `KeyboardInterrupt` for Ctrl-C. Python delivers signals only to the main thread,
    so the class has no effect in other threads.

    Args:
      stopped: the message of `Interrupted` for a signal before the first call to `reason`.
      second: a function that is called with the number of a second signal, also by a block within this one; or None.

    Attributes:
      has_arrived: whether a signal has arrived in any block of this process.
    """

    has_arrived: ClassVar[bool] = False

    def __init__(
        self,
        stopped: str = "stopped before the first step. Run the same command to start again.",
        second: Callable[[int], object] | None = None,
    ) -> None:
        self._stopped, self._second = stopped, second
        self._signal: tuple[str, float] | None = None  # (name, time of arrival)
        self._is_asked = False
        self._before: dict[int, Any] = {}

    def reason(self) -> str | None:
        """Returns the name of the signal that arrived, or None."""
        self._is_asked = True
        return self._signal and self._signal[0]

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in (name for name in NAMES if hasattr(signal, name)):
                number = getattr(signal, name)
                if name not in _MAY_BE_IGNORED or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        # A library that is being imported may replace a signal's exception with another one.
        if self._signal is not None and error is not None and not self._is_asked:
            error = Interrupted(f"{self._signal[0]}: {self._stopped}")
        elif not isinstance(error, Interrupted):
            return
        if self._signal and self._signal[0] == NAMES["SIGINT"]:
            raise KeyboardInterrupt(str(error)) from None
        raise error from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._signal is None:
            self._signal = NAMES[signal.Signals(number).name], time.monotonic()
            StopSignals.has_arrived = True
            if not self._is_asked:
                raise _Stop
            # Written directly, because the signal may have interrupted a write to Python's buffers.
            text = "the run saves a checkpoint after this step and ends; a second signal ends it at once."
            say(f"{self._signal[0]}: {text}")
        elif time.monotonic() - self._signal[1] > SAME_REQUEST:
            self.handle_second(number)

    def handle_second(self, number: int) -> None:
        """Handles a second signal as the outermost block does.

        Args:
          number: the signal number.
        """
        before = self._before[number]
        outer = getattr(before, "__self__", None)
        if isinstance(outer, StopSignals):
            outer.handle_second(number)
        elif self._second:
            self._second(number)
        else:
            signal.signal(number, before)
            signal.raise_signal(number)
