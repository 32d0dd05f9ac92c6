"""The training loop: batches through a program, with checkpoints on the way."""

import collections
import contextlib
import logging
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from mtf_imaging.errors import Interrupted, TrainingError
from mtf_imaging.program.program import Program
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.observers.observer import Observer

_logger = logging.getLogger(__name__)
_TIMED_STEPS = 20


def train(
    *,
    program: Program,
    batches: Callable[[int], Iterable[dict[str, Any]]],
    num_steps: int,
    checkpoints: Checkpoints,
    observers: Sequence[Observer] = (),
    step: Callable[..., dict[str, tf.Tensor]] | None = None,
    stop: Callable[[], str | None] = lambda: None,
    progress: bool = True,
) -> dict[str, float]:
    """Trains until the program has made `num_steps` steps, beginning with the one that it is at.

    A run that is stopped at any moment, restored and started again repeats an unbroken one exactly: the step says which
    batch is next and what random operations draw, and the checkpoint holds everything else.

    Args:
      program: a `Program` of `training_step`, or the one that holds the variables of `step`.
      batches: a function of the first step's number -> iterator of dicts: the program's inputs, and "cases", the
        keys of the cases of the batch.
      num_steps: steps in all, with those of earlier runs.
      checkpoints: `Checkpoints` of the program, restored if the run is to go on.
      observers: `Observer`s. They also begin and close where the run has nothing left to do.
      step: the function to call with the inputs of a batch; default: the program.
      stop: a function that is called before each step; a string ends the run early, for that reason.
      progress: whether to show a bar.

    Returns:
      The measures of the last step, floats by name; none where there was nothing to do.

    Raises:
      TrainingError: a loss is not finite; names the step and the cases. The last checkpoint stays as it is.
      Interrupted: it was asked to stop, and has saved a checkpoint.
    """
    start = int(program.step)
    measures: dict[str, float] = {}
    try:
        for observer in observers:
            observer.begin(start)
        if start >= num_steps:
            _logger.info("all %d steps are done: nothing to train", num_steps)
            return measures
        found = iter(batches(start))
        times: collections.deque[float] = collections.deque(maxlen=_TIMED_STEPS)
        with tqdm(
            total=num_steps, initial=start, desc="train", unit="step", disable=not progress, dynamic_ncols=True
        ) as bar:
            for number in range(start, num_steps):
                _check_stop(stop, number, start, checkpoints)
                is_first = number == start
                with building("building the first step", bar) if is_first else contextlib.nullcontext():
                    made = _compute(step or program, number, found)
                measures = _tell(made, number, observers, checkpoints, bar, times)
                done = number + 1
                if done % checkpoints.every == 0 or done == num_steps:
                    checkpoints.save_once()
        _check_stop(stop, num_steps, start, checkpoints)  # an observer may have left something undone for it
    finally:
        for observer in observers:
            observer.close()
    return measures


def _check_stop(stop: Callable[[], str | None], number: int, start: int, checkpoints: Checkpoints) -> None:
    """Ends the run before step `number` if it is asked to."""
    why = stop()
    if why is None:
        return
    if number > start:
        checkpoints.save_once()
    raise Interrupted(
        f"{why}: stopped after {number} steps; the last checkpoint is {checkpoints.last or 'none yet'}. "
        "Started again, the run goes on from there."
    )


class _Made(NamedTuple):
    """A step: its values, the cases of its batch, its seconds, and the share of these spent waiting for the batch."""

    values: dict[str, Any]
    cases: list[str]
    seconds: float
    waited: float


def _compute(step: Callable[..., dict[str, tf.Tensor]], number: int, batches: Iterator[dict[str, Any]]) -> _Made:
    """Computes one step."""
    began = time.perf_counter()
    with tf.profiler.experimental.Trace("train", step_num=number, _r=1):  # by which a trace tells steps apart
        batch = next(batches)
        came = time.perf_counter()
        inputs = {name: value for name, value in batch.items() if name != "cases"}
        cases = batch.get("cases", [])
        values = {name: value.numpy() for name, value in step(**inputs).items()}
    ended = time.perf_counter()
    return _Made(values, cases, ended - began, (came - began) / (ended - began))


def _tell(
    made: _Made,
    number: int,
    observers: Sequence[Observer],
    checkpoints: Checkpoints,
    bar: tqdm,
    times: collections.deque[float],
) -> dict[str, float]:
    """Reports a step to the observers and the progress bar; returns its measures if the loss is finite."""
    values, cases, seconds, waited = made
    times.append(seconds)
    seconds = statistics.median(times)
    for observer in observers:
        observer.after(number, values, cases, seconds, waited)
    if not np.isfinite(values["loss"]):
        named = f" on case{'s' * (len(cases) > 1)} {', '.join(cases)}" if cases else ""
        raise TrainingError(
            f"step {number}: the loss is {values['loss']}{named}. "
            f"Training stops; the last checkpoint stays as it is: {checkpoints.last or 'none yet'}. "
            "Fix: a lower learning rate, or look at the images of these cases."
        )
    measures = {name: float(value) for name, value in values.items()}
    shown = ", ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.3f}" for name, value in measures.items()
    )
    bar.update()
    rate = f", {len(cases) / seconds:.2f} volumes/s" if cases else ""  # a data set need not name them
    bar.set_postfix_str(f"{shown}{rate}", refresh=False)
    return measures
