"""A trace of some steps for TensorBoard's profiler: what each device did when, and where it waited."""

import logging
from pathlib import Path
from typing import Any

import tensorflow as tf

from mtf_imaging.errors import ConfigError
from mtf_imaging.training.observers.observer import Observer

_logger = logging.getLogger(__name__)


def parse_steps(steps: str, num_steps: int) -> range:
    """Parses the range of steps to trace.

    >>> parse_steps("10:13", 100)
    range(10, 13)

    Args:
      steps: "10:13" for steps 10, 11 and 12; the first step of a run is 0.
      num_steps: steps of the whole run.

    Raises:
      ConfigError: it is no such string, or the run has no such steps.
    """
    first, colon, end = steps.partition(":")
    if not (colon and first.strip().isdecimal() and end.strip().isdecimal()):
        raise ConfigError(f"profile_steps '{steps}' is no range of steps. Fix: as 10:13 for steps 10, 11 and 12.")
    found = range(int(first), int(end))
    if not found:
        raise ConfigError(
            f"profile_steps '{steps}' holds no step: its end, {found.stop}, is not one of them and must be above its "
            f"first, {found.start}. Fix: {found.start}:{found.start + 3} for 3 steps."
        )
    if found.stop > num_steps:
        raise ConfigError(
            f"profile_steps '{steps}' goes on to step {found.stop - 1}, but of {num_steps} steps the last is "
            f"{num_steps - 1}. Fix: an end of at most {num_steps}, or more num_steps.",
            settings=["num_steps"],
        )
    return found


class StepTrace(Observer):
    """Traces steps with TensorFlow's profiler.

    It should be the last of the observers; otherwise the trace contains what the others do after the step before it.

    Args:
      folder: the trace is written to its `plugins/profile`; TensorBoard shows it beside the events in the folder.
      steps: the steps to trace.
    """

    def __init__(self, folder: str | Path, steps: range) -> None:
        self._folder, self._steps = str(folder), steps
        self._first: int | None = None  # first step of the trace that is being made
        self._next = 0

    def begin(self, step: int) -> None:
        if step >= self._steps.stop:
            last = self._steps.stop - 1
            _logger.warning("nothing is traced: of the steps to trace %d is the last, and the run is at %d", last, step)
        elif step >= self._steps.start:
            self._start(step)

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        if self._first is not None:
            self._next = step + 1
        if step == self._steps.stop - 1:
            self._stop()
        elif step == self._steps.start - 1:
            self._start(step + 1)

    def close(self) -> None:
        self._stop()

    def _start(self, step: int) -> None:
        tf.profiler.experimental.start(self._folder)
        self._first = self._next = step

    def _stop(self) -> None:
        if self._first is None:
            return
        tf.profiler.experimental.stop()
        if self._next > self._first:
            _logger.info("steps %d to %d are traced in %s", self._first, self._next - 1, self._folder)
        self._first = None
