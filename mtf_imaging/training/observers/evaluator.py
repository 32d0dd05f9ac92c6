"""Evaluation of held-out cases while a network trains."""

import logging
import time
from pathlib import Path

import numpy as np

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean
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
      folder: for `scores.csv` and events.
      evaluate: a function of `predict`, as `Evaluation.open` returns it.
      predict: the network with the weights of the program.
      program: the `Program` that is trained.
      checkpoints: its `Checkpoints`.
      best: its `BestCheckpoint`.
      best_by: the measure that the best checkpoint has most of.
      every: steps between evaluations.
      num_steps: of the run.
      stop: as of `loop.train`: asked before each case; an evaluation that is stopped leaves no row.
      loss: a function that returns the held-out loss, or None for no held-out loss. Its argument is a function that it
        must call before each batch.
    """

    def __init__(
        self,
        folder,
        evaluate,
        predict,
        *,
        program,
        checkpoints,
        best,
        best_by,
        every,
        num_steps,
        stop=lambda: None,
        loss=None,
    ):
        self._loss = loss
        self._folder, self._evaluate, self._predict, self._stop = Path(folder), evaluate, predict, stop
        self._program, self._checkpoints, self._best, self._best_by = program, checkpoints, best, best_by
        self._every, self._num_steps = every, num_steps
        self._table = StepTable(self._folder / "scores.csv")
        self._events = None

    def begin(self, step):
        rows = self._table.begin(step + 1)
        self._scores = {int(row["step"]): float(row[self._best_by]) for row in rows}
        is_done = step in self._scores
        self._events = EventFile(self._folder, step + is_done)
        if not is_done and self._is_due(step):
            self._run(step)
        else:
            self._best.keep(self._scores)

    def after(self, step, values, cases, seconds, waited):
        if self._is_due(step + 1) and np.isfinite(values["loss"]):
            self._checkpoints.save_once()
            self._run(step + 1)

    def close(self):
        self._table.close()
        if self._events:
            self._events.close()

    def _is_due(self, steps):
        """Whether the weights after so many steps are to be evaluated."""
        return steps > 0 and (steps % self._every == 0 or steps == self._num_steps)

    def _run(self, step):
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

    def _predict_unless_stopped(self, image):
        self._check_stop()
        return self._predict(image)

    def _check_stop(self):
        why = self._stop()
        if why is not None:
            raise _Stopped(why)


def check_measure(name, measures):
    """Raises ConfigError if an evaluation has no measure of this name."""
    if name not in measures:
        raise ConfigError(
            f"monitor = {name!r} is no measure of the evaluation, which has {', '.join(measures) or 'none'}."
            f"{did_you_mean(str(name), measures)} Fix: choose one of them.",
            settings=["monitor"],
        )
