"""A trace of some steps for TensorBoard's profiler: what each device did when, and where it waited."""

import logging

import tensorflow as tf

from mtf_imaging.errors import ConfigError
from mtf_imaging.training.observers.observer import Observer

_logger = logging.getLogger(__name__)


def parse_steps(steps, num_steps):
    """Reads which steps to trace.

    Args:
      steps: "10:13" for steps 10, 11 and 12; the first step of a run is 0.
      num_steps: that the run makes in all.

    Returns:
      A range.

    Raises:
      ConfigError: it is no such string, or the run has no such steps.

    >>> parse_steps("10:13", 100)
    range(10, 13)
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

    It should be the last of the observers, lest the others' work after the step before be in the trace.

    Args:
      folder: for the trace, in its `plugins/profile`; TensorBoard shows it beside the events in the folder.
      steps: a range.
    """

    def __init__(self, folder, steps):
        self._folder, self._steps = str(folder), steps
        self._first = self._next = None  # steps of the trace that is being made

    def begin(self, step):
        if step >= self._steps.stop:
            last = self._steps.stop - 1
            _logger.warning("nothing is traced: of the steps to trace %d is the last, and the run is at %d", last, step)
        elif step >= self._steps.start:
            self._start(step)

    def after(self, step, values, cases, seconds, waited):
        if self._first is not None:
            self._next = step + 1
        if step == self._steps.stop - 1:
            self._stop()
        elif step == self._steps.start - 1:
            self._start(step + 1)

    def close(self):
        self._stop()

    def _start(self, step):
        tf.profiler.experimental.start(self._folder)
        self._first = self._next = step

    def _stop(self):
        if self._first is None:
            return
        tf.profiler.experimental.stop()
        if self._next > self._first:
            _logger.info("steps %d to %d are traced in %s", self._first, self._next - 1, self._folder)
        self._first = None
