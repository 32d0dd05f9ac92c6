"""The course of a training: held-out scores by step and CPU time."""

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

from mtf_imaging.training.observers.observer import Observer

POINTS = 10  # number of times that a training is scored

Scores = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Point:
    """The scores after some steps.

    Attributes:
      step: number of steps.
      cpu_seconds: CPU seconds of steps and of reading their batches, excluding scoring.
      dice: the Dice of the held-out cases by mask.
    """

    step: int
    cpu_seconds: float
    dice: Scores

    @property
    def mean(self) -> float:
        """The mean Dice of all masks."""
        return statistics.fmean(self.dice.values())


class Course(Observer):
    """Scores a training at equal steps and at equal CPU time.

    Args:
      score: a function that returns the scores of the current weights.
      num_steps: the budget in steps.
      budget: the budget in CPU seconds; None for the time of `num_steps` steps.
      clock: a function that returns CPU seconds.

    Attributes:
      points: the scores so far.
      at_steps, at_budget: the scores when each budget is spent; None until then.
      peak_bytes: the peak process memory before the first scores.
    """

    def __init__(
        self,
        score: Callable[[], Scores],
        num_steps: int,
        budget: float | None,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._score, self._num_steps, self._budget, self._clock = score, num_steps, budget, clock
        self._began = self._spent = 0.0  # at the first step, and spent on scoring
        self.points: list[Point] = []
        self.at_steps: Point | None = None
        self.at_budget: Point | None = None
        self.peak_bytes = 0

    def begin(self, step: int) -> None:
        self._began = self._clock()

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        now, done = self._clock(), step + 1
        spent = now - self._began - self._spent
        is_last_step = done == self._num_steps
        budget = self._budget
        if budget is None:
            is_due, ends = done * POINTS // self._num_steps > (done - 1) * POINTS // self._num_steps, is_last_step
        else:
            before = self.points[-1].cpu_seconds if self.points else 0.0
            is_due = int(spent * POINTS / budget) > int(before * POINTS / budget) and spent <= budget
            ends = spent >= budget and self.at_budget is None
        if is_due or ends or is_last_step:
            if not self.points:
                self.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            point = Point(done, spent, self._score())
            self.points.append(point)
            if is_last_step:
                self.at_steps = point
            if ends:
                self.at_budget = point
        self._spent += self._clock() - now

    def stop(self) -> str | None:
        """Returns a reason to stop the training when both budgets are spent."""
        return "both budgets are spent" if self.at_steps and self.at_budget else None
