"""Evaluation of held-out cases during training."""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.network import Network, prepared
from mtf_imaging.spelling import did_you_mean
from mtf_imaging.training.averages import averaged
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.evaluation import Evaluated, Predict
from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import StepTable

_logger = logging.getLogger(__name__)
LOSS = "loss"  # the same name as the training loss, so that TensorBoard shows both in one chart


class _Stopped(Exception):
    """The run was asked to stop during an evaluation."""


@dataclasses.dataclass(frozen=True)
class Monitoring:
    """When held-out cases are evaluated, and the measure that selects the best checkpoint.

    Attributes:
      best_by: the measure; higher is better.
      every: number of steps between evaluations. The last step is always evaluated.
      num_steps: total number of steps of the run.
    """

    best_by: str
    every: int
    num_steps: int

    def is_due(self, steps: int) -> bool:
        """Returns whether to evaluate the weights after this number of steps."""
        return steps > 0 and (steps % self.every == 0 or steps == self.num_steps)


class Evaluator(Observer):
    """Evaluates held-out cases at regular steps; writes `scores.csv`, TensorBoard events and the best checkpoint.

    An evaluation saves a checkpoint of its step, writes events and a row of `scores.csv`, and then updates the best
    checkpoint. A run that is killed in between resumes with the missing part, so it ends with the same scores and the
    same best checkpoint as an uninterrupted run. This requires that the evaluator is the last observer of the run.

    If several processes have joined, every one of them has an evaluator, because all of them compute the predictions.
    Only process 0 writes files.

    If the program has averages of the weights, they are evaluated instead of the last weights.

    Args:
      folder: folder of `scores.csv` and the events.
      evaluate: a function of `predict`, as returned by `Evaluation.open`.
      predict: the network with the weights of the program.
      monitoring: when to evaluate, and the measure that selects the best checkpoint.
      checkpoints: the `Checkpoints` of the program that is trained.
      best: the `BestCheckpoint` of the program.
      stop: the stop function, as in `loop.train`. It is called before each case. An interrupted evaluation writes no
          row.
      loss: a function that returns the held-out loss, or None to skip it. Its argument is a function that it must call
        before each batch.
    """

    def __init__(
        self,
        folder: str | Path,
        evaluate: Callable[[Predict], Evaluated],
        predict: Network,
        monitoring: Monitoring,
        *,
        checkpoints: Checkpoints,
        best: BestCheckpoint,
        stop: Callable[[], str | None] = lambda: None,
        loss: Callable[[Callable[[], None]], float] | None = None,
    ) -> None:
        self._loss = loss
        self._folder, self._evaluate, self._stop = Path(folder), evaluate, stop
        self._predict = prepared(self._check_stop, predict)
        self._monitoring, self._checkpoints, self._best = monitoring, checkpoints, best
        self._table = StepTable(self._folder / "scores.csv")
        self._events: EventFile | None = None
        self._group = groups.current()
        self._listeners: list[Callable[[int, Mapping[str, float]], None]] = []

    def add_listener(self, listener: Callable[[int, Mapping[str, float]], None]) -> None:
        """Adds a function that process 0 calls with the step and the scores of each evaluation."""
        self._listeners.append(listener)

    def begin(self, step: int) -> None:
        rows = self._group.first(lambda: self._table.begin(step + 1))
        self._scores = {int(row["step"]): float(row[self._monitoring.best_by]) for row in rows}
        is_done = step in self._scores
        if self._group.is_first:
            self._events = EventFile(self._folder, step + is_done)
        if not is_done and self._monitoring.is_due(step):
            self._run(step)
        else:
            self._group.first(lambda: self._best.keep(self._scores))

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        if self._monitoring.is_due(step + 1) and np.isfinite(values["loss"]):
            self._checkpoints.save_once()
            self._run(step + 1)

    def close(self) -> None:
        self._table.close()
        if self._events:
            self._events.close()

    def _run(self, step: int) -> None:
        began = time.monotonic()
        try:
            with averaged(self._checkpoints.program):
                loss = {} if self._loss is None else {LOSS: self._loss(self._check_stop)}
                scores, pictures = self._evaluate(self._predict)
        except _Stopped as why:
            _logger.info("step %d: the evaluation is postponed until the run resumes: %s", step, why)
            return
        scores = loss | scores
        self._checkpoints.wait()  # delete the previous best checkpoint only after the run can resume from this step
        best_by = self._monitoring.best_by
        self._scores[step] = float(scores[best_by])
        best = self._group.first(lambda: self._write(step, scores, pictures))
        shown = ", ".join(f"{name} {value:.{4 if name == LOSS else 3}f}" for name, value in scores.items())
        seconds = time.monotonic() - began
        _logger.info("step %d: held-out cases: %s (%.1f s); best %s: step %s", step, shown, seconds, best_by, best)

    def _write(self, step: int, scores: Mapping[str, float], pictures: Mapping[str, np.ndarray]) -> int | None:
        """Writes the results of an evaluation, and returns the step of the best checkpoint."""
        assert self._events is not None, "begin must be called first"
        self._events.scalars(step, scores)
        for name, pixels in pictures.items():
            self._events.picture(step, name, pixels)
        self._table.append(step, scores)
        for listener in self._listeners:
            listener(step, scores)
        return self._best.keep(self._scores)

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
      ConfigError: the evaluation does not have the measure.
    """
    if name not in measures:
        raise ConfigError(
            f"monitor = {name!r} is not a measure of the evaluation, which has {', '.join(measures) or 'none'}."
            f"{did_you_mean(str(name), measures)} Fix: choose one of them.",
            settings=["monitor"],
        )
