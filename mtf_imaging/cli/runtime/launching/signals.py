"""Records the signals that this process receives, so that it can pass them on to its children."""

import os
import select
import signal
import time
from types import FrameType
from typing import Any, Self

from mtf_imaging.engine.processes.leaving import SAME_REQUEST

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
_MANY = 4096  # bytes, one for each signal


class Signals:
    """Records signals within the block.

    Attributes:
      received: the numbers of all signals that arrived.
      are_repeated: whether a signal arrived more than a second after the first one.
      wakeup: a file descriptor that becomes readable after a signal or the end of a child process.
    """

    def __init__(self) -> None:
        self.received: set[int] = set()
        self._first: float | None = None  # time of arrival
        self.are_repeated = False
        self._new: list[int] = []
        self._before: dict[int, Any] = {}

    def take(self) -> list[int]:
        """Returns the signals received since the last call, in order."""
        taken, self._new = self._new, []
        return taken

    def wait(self, timeout: float) -> None:
        """Waits until a signal arrives or a child process ends, up to `timeout` seconds."""
        if select.select([self.wakeup], [], [], timeout)[0]:
            os.read(self.wakeup, _MANY)

    def __enter__(self) -> Self:
        self.wakeup, self._wake = os.pipe()
        for descriptor in (self.wakeup, self._wake):
            os.set_blocking(descriptor, False)
        self._wakeup_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in _PASSED_ON:
            # Shells make background processes ignore Ctrl-C, which is meant for the foreground process, and nohup makes
            # its program ignore SIGHUP.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._record)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)  # only wakes `wait`
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.wakeup)
        os.close(self._wake)

    def _record(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self._first = self._first or now
        self.are_repeated = self.are_repeated or now - self._first > SAME_REQUEST
        self.received.add(number)
        self._new.append(number)
