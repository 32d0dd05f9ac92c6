"""Evaluation of held-out cases while a network trains."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.errors import ConfigError
from mtf_imaging.program.program import Program
from mtf_imaging.spelling import did_you_mean
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.evaluation import Evaluated, Predict
from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import StepTable

_logger = logging.getLogger(__name__)
LOSS = "loss"  # the name of the training loss, so that TensorBoard shows both in one chart


class _Stopped(Exception):
    """The run was told to stop while it evaluated."""


class Evaluator(Observer):
    """Evaluates every so many steps and after the last; keeps `scores.csv`, events, and the best checkpoint.

    A step that is evaluated has a checkpoint first, and a row in `scores.csv` last of all but the best checkpoint. So
    a run that is killed anywhere between knows what it has still to do when it goes on, and ends with the scores and
    the best checkpoint of a run that never stopped. For that, the evaluator must be the last of a run's observers.

    Args:
      folder: folder of `scores.csv` and events.
      evaluate: a function of `predict`, as `Evaluation.open` returns it.
      predict: the network with the weights of the program.
      program: the `Program` that is trained.
      checkpoints: its `Checkpoints`.
      best: its `BestCheckpoint`.
      best_by: the measure by which the best checkpoint is chosen; more is better.
      every: steps between evaluations.
      num_steps: steps of the run.
      stop: as of `loop.train`: asked before each case; an evaluation that is stopped leaves no row.
      loss: a function that returns the held-out loss, or None for no held-out loss. Its argument is a function that it
        must call before each batch.
    """

    def __init__(
        self,
        folder: str | Path,
        evaluate: Callable[[Predict], Evaluated],
        predict: Predict,
        *,
        program: Program,
        checkpoints: Checkpoints,
        best: BestCheckpoint,
        best_by: str,
        every: int,
        num_steps: int,
        stop: Callable[[], str | None] = lambda: None,
        loss: Callable[[Callable[[], None]], float] | None = None,
    ) -> None:
        self._loss = loss
        self._folder, self._evaluate, self._predict, self._stop = Path(folder), evaluate, predict, stop
        self._program, self._checkpoints, self._best, self._best_by = program, checkpoints, best, best_by
        self._every, self._num_steps = every, num_steps
        self._table = StepTable(self._folder / "scores.csv")
        self._events: EventFile | None = None

    def begin(self, step: int) -> None:
        rows = self._table.begin(step + 1)
        self._scores = {int(row["step"]): float(row[self._best_by]) for row in rows}
        is_done = step in self._scores
        self._events = EventFile(self._folder, step + is_done)
        if not is_done and self._is_due(step):
            self._run(step)
        else:
            self._best.keep(self._scores)

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        if self._is_due(step + 1) and np.isfinite(values["loss"]):
            self._checkpoints.save_once()
            self._run(step + 1)

    def close(self) -> None:
        self._table.close()
        if self._events:
            self._events.close()

    def _is_due(self, steps: int) -> bool:
        """Whether the weights after so many steps are to be evaluated."""
        return steps > 0 and (steps % self._every == 0 or steps == self._num_steps)

    def _run(self, step: int) -> None:
        assert self._events is not None, "begin opens the file"
        began = time.monotonic()
        try:
            loss = {} if self._loss is None else {LOSS: self._loss(self._check_stop)}
            scores, pictures = self._evaluate(self._predict_unless_stopped)
        except _Stopped as why:
            _logger.info("step %d: the evaluation is left out, to be made when the run goes on: %s", step, why)
            return
        scores = loss | scores
        self._events.scalars(step, scores)
        for name, pixels in pictures.items():
            self._events.picture(step, name, pixels)
        self._table.append(step, scores)
        self._scores[step] = scores[self._best_by]
        best = self._best.keep(self._scores)
        shown = ", ".join(f"{name} {value:.{4 if name == LOSS else 3}f}" for name, value in scores.items())
        seconds = time.monotonic() - began
        _logger.info(
            "step %d: held-out cases: %s (%.1f s); best %s: step %s", step, shown, seconds, self._best_by, best
        )

    def _predict_unless_stopped(self, image: np.ndarray) -> np.ndarray:
        self._check_stop()
        return self._predict(image)

    def _check_stop(self) -> None:
        why = self._stop()
        if why is not None:
            raise _Stopped(why)


def check_measure(name: str, measures: Sequence[str]) -> None:
    """Checks that an evaluation has a measure.

    Args:
      name: name of the measure.
      measures: the measures of the evaluation.

    Raises:
      ConfigError: it is none of them.
    """
    if name not in measures:
        raise ConfigError(
            f"monitor = {name!r} is no measure of the evaluation, which has {', '.join(measures) or 'none'}."
            f"{did_you_mean(str(name), measures)} Fix: choose one of them.",
            settings=["monitor"],
        )
