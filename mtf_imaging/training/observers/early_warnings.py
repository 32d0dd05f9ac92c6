"""Warnings about a run that learns nothing, while there is still time to change it."""

import collections
import logging
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import read_rows

_FEWEST = 50  # steps before any warning; fewer say little
_MOST_UNTIL_MASK, _MOST_UNTIL_LOSS = 2000, 1000  # steps, in long runs
_ABSENT, _FOUND = 0.01, 0.1  # soft Dice of a mask that is not predicted, and of a predicted mask
_WINDOW = 20  # steps in the moving mean of the Dice, which differs between cases
_FALLEN = 0.97  # a loss above this fraction of the first one has not fallen
_SAMPLES = 200  # earlier steps whose learning rate a resumed run checks
_DECAYED = 0.5  # a rate below this fraction of the highest rate has decayed

_logger = logging.getLogger(__name__)


class EarlyWarnings(Observer):
    """Warns once about each sign of a run that learns nothing.

    - The soft Dice of a labeled mask is still about 0 after half of the steps, or after 2000 steps.
    - The loss has not fallen after a quarter of the steps, or after 1000 steps.
    - The learning rate has decayed below half of its maximum before the soft Dice of a labeled mask reached 0.1.

    Nothing is computed once all masks have been found and the loss has been checked.

    Args:
      losses: the `losses.csv` of the run, with the steps of earlier calls.
      masks: the measures that are the soft Dice of a mask with a label in the training data. Names without a measure of
          the task are ignored.
      num_steps: number of steps of the run.
      learning_rate: a function that maps the step number to the learning rate.
    """

    def __init__(
        self, losses: str | Path, masks: Sequence[str], num_steps: int, learning_rate: Callable[[int], float]
    ) -> None:
        self._path, self._rate = Path(losses), learning_rate
        self._mask_step = max(_FEWEST, min(num_steps // 2, _MOST_UNTIL_MASK))
        self._loss_step = max(_FEWEST, min(num_steps // 4, _MOST_UNTIL_LOSS))
        self._losses: list[float] = []
        self._best = dict.fromkeys(masks, 0.0)  # of the masks that have not been found
        self._recent: dict[str, collections.deque[float]] = {mask: collections.deque(maxlen=_WINDOW) for mask in masks}
        self._highest, self._has_decayed = 0.0, False
        self._absent: list[str] = []

    def begin(self, step: int) -> None:
        for number, row in enumerate(read_rows(self._path, step)):
            self._add(number, {name: float(row[name]) for name in ("loss", *self._best) if name in row})
        if self._best:  # a rate takes too long to compute for each earlier step
            for number in sorted({step * index // _SAMPLES for index in range(_SAMPLES)} if step else ()):
                self._note_rate(number)

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        self._add(step, values)
        if step + 1 == self._loss_step:
            self._warn_of_loss()
        if step + 1 == self._mask_step:
            self._warn_of_masks(step + 1)
        if self._best and self._note_rate(step) and step + 1 >= _FEWEST:
            self._warn_of_rate(step)

    def _add(self, step: int, values: dict[str, Any]) -> None:
        if step < self._loss_step:
            self._losses.append(float(values["loss"]))
        for mask in [*self._best]:
            if mask in values:
                self._recent[mask].append(float(values[mask]))
                if len(self._recent[mask]) == _WINDOW:
                    self._best[mask] = max(self._best[mask], statistics.fmean(self._recent[mask]))
            if mask not in values or self._best[mask] >= _FOUND:
                del self._best[mask]

    def _note_rate(self, step: int) -> bool:
        """Returns whether the learning rate has decayed at this step."""
        rate = self._rate(step)
        self._highest = max(self._highest, rate)
        had, self._has_decayed = self._has_decayed, self._has_decayed or rate < _DECAYED * self._highest
        return self._has_decayed and not had

    def _warn_of_loss(self) -> None:
        steps = len(self._losses)
        few = max(steps // 10, 10)
        first, last = statistics.fmean(self._losses[:few]), statistics.fmean(self._losses[-max(steps // 4, 10) :])
        if last > _FALLEN * first:
            _logger.warning(
                "%s: the loss has not fallen in %d steps: its mean was %.4g in the first %d, and is %.4g now. Fix: try "
                "a learning rate 10 times lower or higher, and check the labels and the intensity window.",
                self._path.parent,
                steps,
                first,
                few,
                last,
            )

    def _warn_of_masks(self, steps: int) -> None:
        for mask, best in self._best.items():
            if best < _ABSENT:
                self._absent.append(mask)
                _logger.warning(
                    "%s: the soft Dice of %s is still %.3f after %d steps, although the training data contain it. Fix: "
                    "start from the frequencies of the labels (class_frequencies), give the Dice loss or this label "
                    "more weight, and check the labels.",
                    self._path.parent,
                    mask,
                    statistics.fmean(self._recent[mask]),
                    steps,
                )

    def _warn_of_rate(self, step: int) -> None:
        missing = [mask for mask in self._best if mask not in self._absent]
        if missing:
            _logger.warning(
                "%s: the learning rate of step %d is %.3g, less than half of its maximum of %.3g, but the soft Dice of "
                "%s has not reached %g yet. Fix: let the rate decay later, or train for more steps.",
                self._path.parent,
                step,
                self._rate(step),
                self._highest,
                " and ".join(missing),
                _FOUND,
            )
