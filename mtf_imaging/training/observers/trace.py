"""Traces of selected steps for TensorBoard's profiler, which shows the work and the idle time of each device."""

import logging
import re
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
      ConfigError: the string is not a range of steps, or the range exceeds the steps of the run.
    """
    match = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", steps)
    parsed = range(int(match[1]), int(match[2])) if match else range(0)
    if not parsed or parsed.stop > num_steps:
        raise ConfigError(
            f"profile_steps '{steps}' is not a range of steps of the run, which has the steps 0 to {num_steps - 1}. "
            "Fix: give 10:13 for steps 10, 11 and 12, or increase num_steps.",
            settings=["num_steps"],
        )
    return parsed


class StepTrace(Observer):
    """Traces steps with TensorFlow's profiler.

    It should be the last observer. Otherwise, the trace also contains the work of later observers for the preceding
    step.

    Args:
      folder: the folder of the run's events. The trace is written to `plugins/profile` in it, where TensorBoard reads
        it.
      steps: the steps to trace.
    """

    def __init__(self, folder: str | Path, steps: range) -> None:
        self._folder, self._steps = str(folder), steps
        self._first: int | None = None  # first step of the current trace
        self._next = 0

    def begin(self, step: int) -> None:
        if step >= self._steps.stop:
            last = self._steps.stop - 1
            _logger.warning("nothing to trace: the last step to trace is %d, but the run is at step %d", last, step)
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
            _logger.info("wrote a trace of steps %d to %d to %s", self._first, self._next - 1, self._folder)
        self._first = None
