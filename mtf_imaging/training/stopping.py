"""Stops several processes after the same step, even if only one of them was asked to stop."""

import time
from collections.abc import Callable

from mtf_imaging.engine.meshes.group import Group

_SECONDS = 0.5  # time between exchanges, which take milliseconds
_MOST_CALLS = 1000


class AgreedStop:
    """A stop function, as in `loop.train`, that returns the same reason in all processes.

    The processes do not exchange their reasons in every call, because steps may be as fast as an exchange. Process 0
    chooses the number of calls until the next exchange, so that about half a second lies between exchanges.

    Args:
      stop: the stop function of this process.
      group: the processes.
    """

    def __init__(self, stop: Callable[[], str | None], group: Group) -> None:
        self._stop, self._group = stop, group
        self._reason: str | None = None
        self._left = 0  # calls until the next exchange
        self._calls, self._since = 1, time.monotonic()  # since the last exchange
        self._has_begun = False

    def __call__(self) -> str | None:
        """Returns the reason to stop, or None; exchanges reasons from time to time."""
        if self._group.num == 1:
            return self._stop()
        self._left -= 1
        if self._reason is None and self._left < 0:
            self._exchange()
        return self._reason

    def now(self) -> str | None:
        """Returns the reason to stop, or None; always exchanges reasons."""
        if self._group.num == 1:
            return self._stop()
        if self._reason is None:
            self._exchange()
        return self._reason

    def _exchange(self) -> None:
        if not self._has_begun:
            # Until the first call of `stop`, a signal may end a process at once. No process calls it before the others.
            self._group.barrier()
            self._has_begun = True
        own = self._stop() or ""
        seconds = (time.monotonic() - self._since) / self._calls
        calls = int(min(_SECONDS / max(seconds, 1e-6), 2 * self._calls, _MOST_CALLS)) or 1
        numbers = self._group.gather_numbers([bool(own), calls])
        if numbers[:, 0].any():
            self._reason = next(filter(None, self._group.gather(own)))
        self._calls = int(numbers[0, 1])
        self._left, self._since = self._calls - 1, time.monotonic()
