"""The evaluation of held-out cases while a job trains."""

import functools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.held_out import HeldOutRecords
from mtf_imaging.files.run_folder import BEST, EVAL
from mtf_imaging.jobs.data import TrainingData
from mtf_imaging.layout import Layout
from mtf_imaging.program.program import Program
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.data_set import checked_batches
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.held_out_loss import HeldOutLoss
from mtf_imaging.training.observers.evaluator import LOSS, Evaluator, check_measure
from mtf_imaging.training.prediction import predictor_of
from mtf_imaging.training.protocols import check_offers, check_takes
from mtf_imaging.training.step import TrainingStep

_logger = logging.getLogger(__name__)


class HeldOut(NamedTuple):
    """The held-out cases of a run.

    Attributes:
      evaluate: the function of the network that `Evaluation.open` returns.
      batches: a function that returns the batches for the held-out loss; None for no held-out loss.
    """

    evaluate: Callable
    batches: Callable | None


def open_held_out(data: TrainingData, step: TrainingStep, monitor: str) -> HeldOut | None:
    """Opens the held-out cases; None where there are none.

    Args:
      data: the images.
      step: the step of training.
      monitor: the measure that the best checkpoint is chosen by.

    Raises:
      ConfigError: there is no evaluation for this data set, or it has no such measure.
      DataError: the folder cannot be used.
    """
    if not data.eval_dir:
        return None
    evaluation: Any = data.evaluation or _of_records(data)
    check_offers(evaluation, Evaluation, "evaluation")
    check_measure(monitor, getattr(evaluation, "measures", ()))
    eval_dir = data.eval_dir
    if not isinstance(eval_dir, Subset) and Path(eval_dir).resolve() == Path(data.data_dir).resolve():
        _logger.warning("eval_dir is data_dir: scores of cases that are trained on say nothing about others")
    batches = None
    if hasattr(evaluation, "loss_batches") and LOSS not in evaluation.measures:
        check_takes(evaluation, "loss_batches", "evaluation", ["eval_dir"], ["batch_size", "sizes"])
        options = {"batch_size": step.batch_size, "sizes": step.sizes}
        batches = functools.partial(evaluation.loss_batches, eval_dir, **options)
    return HeldOut(evaluation.open(eval_dir, step.sizes), batches)


def _of_records(data: TrainingData) -> HeldOutRecords:
    if not isinstance(data.data_set, Records):
        raise ConfigError(
            f"eval_dir: the data set is a {type(data.data_set).__name__}, and liver and lesions are scored on records "
            "alone. Fix: give an evaluation of your own (see mtf_imaging.training.evaluation), or leave out eval_dir.",
            ["evaluation", "eval_dir"],
        )
    return HeldOutRecords(data.data_set.window, format_spacing(data.data_set.sampling(data.data_dir).spacing))


def make_evaluator(
    held_out: HeldOut,
    step: TrainingStep,
    program: Program,
    checkpoints: Checkpoints,
    *,
    layout: Layout,
    mesh_impl: str,
    model_dir: str | Path,
    monitor: str,
    every: int,
    num_steps: int,
    stop: Callable[[], str | None],
    progress: bool,
) -> Evaluator:
    """Builds the observer that evaluates held-out cases, and its networks for prediction and for the loss.

    Args:
      held_out: the held-out cases.
      step: the step of training.
      program: the program that trains, whose variables the networks share.
      checkpoints: its checkpoints.
      layout: the layout.
      mesh_impl: as of a `Program`.
      model_dir: the folder of the run.
      monitor: the measure that the best checkpoint is chosen by.
      every: steps between evaluations.
      num_steps: steps of the run.
      stop: as of `training.loop.train`.
      progress: whether to show progress.
    """
    options: dict[str, Any] = {"layout": layout, "mesh_impl": mesh_impl}
    folder = Path(model_dir)
    network = predictor_of(program, task=step.task, sizes=step.sizes, dtype=step.dtype, progress=progress, **options)
    return Evaluator(
        folder / EVAL,
        held_out.evaluate,
        network,
        program=program,
        checkpoints=checkpoints,
        best=BestCheckpoint(folder / BEST, program),
        best_by=monitor,
        every=every,
        num_steps=num_steps,
        stop=stop,
        loss=held_out.batches and _held_out_loss(held_out.batches, step, program, options, progress),
    )


def _held_out_loss(batches: Callable, step: TrainingStep, program: Program, options: dict, progress: bool) -> Callable:
    """Returns the held-out loss for `Evaluator`; batches and micro-batches have the same size as in training."""
    count = step.micro_batches
    with building("building the held-out loss", progress=progress):
        loss = HeldOutLoss(step.task, step.part_inputs, count, variables=program, **options)

    def compute(check_stop: Callable[[], None]) -> float:
        found = step.split(checked_batches(batches(), step.inputs, "held-out cases"))

        def each() -> Iterator[Any]:
            for batch in found:
                check_stop()
                batch.pop("cases")
                yield batch["parts"] if count > 1 else batch

        return loss(each())

    return compute
