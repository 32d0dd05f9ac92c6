"""The training loop, which runs the steps and saves checkpoints."""

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

from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import Interrupted, TrainingError
from mtf_imaging.training.averages import GRADIENT_NORM
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.data_set import errors_on_cases, on_cases
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
    """Trains from the current step of the program until `num_steps`.

    You can stop a run at any moment, restore its last checkpoint and start it again. It then computes exactly the same
    steps as an uninterrupted run: the step number determines the batch and all random values, and the checkpoint
    contains the rest of the state.

    Args:
      program: a `Program` of `training_step`, or the program that holds the variables of `step`.
      batches: a function that maps the number of the first step to an iterator of dicts. Each dict contains the
        program's inputs and "cases", the keys of the batch's cases.
      num_steps: total number of steps, including the steps before a restart.
      checkpoints: the `Checkpoints` of the program. To resume a run, restore them before.
      observers: the `Observer`s of the run. Their `begin` and `close` are called even if no steps are left.
      step: the function to call with the inputs of a batch; defaults to the program.
      stop: a function that is called before each step. If it returns a string, the run stops for that reason. If
        several processes have joined, it returns the same value in all of them; see `training.stopping`.
      progress: whether to show a progress bar.

    Returns:
      The measures of the last step, floats by name; an empty dict if no steps are left.

    Raises:
      DataError: a batch contains labels that are not classes; see `ops.expect_labels`.
      TrainingError: a loss, or the norm of a gradient that is clipped, is not finite. The message names the step and
        the cases; the last checkpoint is kept.
      Interrupted: the run was asked to stop and has saved a checkpoint.
    """
    start = int(program.step)
    measures: dict[str, float] = {}
    try:
        for observer in observers:
            observer.begin(start)
        if start >= num_steps:
            _logger.info("all %d steps are done, so there is nothing to train", num_steps)
            return measures
        iterator = iter(batches(start))
        times: collections.deque[float] = collections.deque(maxlen=_TIMED_STEPS)
        with tqdm(
            total=num_steps, initial=start, desc="train", unit="step", disable=not progress, dynamic_ncols=True
        ) as bar:
            for number in range(start, num_steps):
                _check_stop(stop, number, start, checkpoints)
                is_first = number == start
                with building("building the first step", bar) if is_first else contextlib.nullcontext():
                    result = _compute(step or program, number, iterator)
                measures = _report(result, number, observers, checkpoints, bar, times)
                done = number + 1
                if done % checkpoints.every == 0 or done == num_steps:
                    checkpoints.save_once()
        checkpoints.wait()
        _check_stop(stop, num_steps, start, checkpoints)  # an observer may have skipped work because of the stop
    finally:
        checkpoints.close()
        for observer in observers:
            observer.close()
    return measures


def _check_stop(stop: Callable[[], str | None], number: int, start: int, checkpoints: Checkpoints) -> None:
    """Ends the run before step `number` if `stop` returns a reason."""
    why = stop()
    if why is None:
        return
    if number > start:
        checkpoints.save_once()
        checkpoints.wait()
    error = Interrupted(
        f"{why}: stopped after {number} steps; last checkpoint: {checkpoints.last or 'none'}. "
        "Start the run again to resume it."
    )
    error.reason = why
    raise error


class _StepResult(NamedTuple):
    """The result of a step.

    Attributes:
      values: the loss and the measures.
      cases: names of the cases in the batch.
      seconds: duration of the step.
      waited: fraction of the duration that was spent waiting for the batch.
    """

    values: dict[str, Any]
    cases: list[str]
    seconds: float
    waited: float


def _compute(step: Callable[..., dict[str, tf.Tensor]], number: int, batches: Iterator[dict[str, Any]]) -> _StepResult:
    """Computes one step."""
    began = time.perf_counter()
    with tf.profiler.experimental.Trace("train", step_num=number, _r=1):  # marks the step in a trace
        batch = next(batches)
        arrived = time.perf_counter()
        inputs = {name: value for name, value in batch.items() if name != "cases"}
        cases = batch.get("cases", [])
        with errors_on_cases(f"step {number}", cases):
            values = {name: value.numpy() for name, value in step(**inputs).items()}
    ended = time.perf_counter()
    return _StepResult(values, cases, ended - began, (arrived - began) / (ended - began))


def _report(
    result: _StepResult,
    number: int,
    observers: Sequence[Observer],
    checkpoints: Checkpoints,
    bar: tqdm,
    times: collections.deque[float],
) -> dict[str, float]:
    """Passes a step to the observers and the progress bar, and returns its measures.

    Raises:
      TrainingError: the loss or the norm of the gradient is not finite.
    """
    values, cases, seconds, waited = result
    # Before the observers, which may save or evaluate the weights.
    _check_finite("norm of the gradient", values.pop(GRADIENT_NORM, 0.0), number, cases, checkpoints)
    times.append(seconds)
    seconds = statistics.median(times)
    for observer in observers:
        observer.after(number, values, cases, seconds, waited)
    _check_finite("loss", values["loss"], number, cases, checkpoints)
    measures = {name: float(value) for name, value in values.items()}
    shown = ", ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.3f}" for name, value in measures.items()
    )
    bar.update()
    rate = f", {len(cases) / seconds:.2f} images/s" if cases else ""  # a data set may omit the names of its cases
    bar.set_postfix_str(f"{shown}{rate}", refresh=False)
    return measures


def _check_finite(what: str, value: float, number: int, cases: list[str], checkpoints: Checkpoints) -> None:
    """Raises TrainingError if a value of step `number` is not finite."""
    if not np.isfinite(value):
        raise TrainingError(
            f"step {number}: the {what} is {value}{on_cases(cases)}. "
            f"Training stops. Last checkpoint: {checkpoints.last or 'none'}. "
            "Fix: lower the learning rate, or inspect the images of these cases."
        )
