"""Evaluation of held-out cases during training."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.data.records.splits import Subset
from mtf_imaging.files.run_folder import BEST, EVAL
from mtf_imaging.inference.network import by_size
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.held_out.loss import Trained, loss_of_batches, loss_of_regions
from mtf_imaging.kinds.all_kinds import explained
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.observers.evaluator import LOSS, Evaluator, Monitoring, check_measure
from mtf_imaging.training.prediction import NetworkBuilder
from mtf_imaging.training.protocols import check_offers, check_takes, replaces
from mtf_imaging.training.step import TrainingStep

_logger = logging.getLogger(__name__)


class HeldOut(NamedTuple):
    """The held-out cases of a run.

    Attributes:
      evaluate: the function that `Evaluation.open` returns.
      batches: a function that returns the batches for the held-out loss; None if there are none.
      sizes: voxels of the images along each spatial dimension; None if they have several sizes.
      any_size: whether the network must accept images of any size, as it does if `sizes` is None.
      region_batches: a function that returns the regions of these batches that this process computes, to read instead
        of `batches`; None if there is no such function.
      patch: the size in voxels of the training patches, which is also the size of the batches and of the window that
        slides over the images; None for whole images.
    """

    evaluate: Callable
    batches: Callable | None
    sizes: tuple[int, ...] | None
    any_size: bool = False
    region_batches: Callable | None = None
    patch: tuple[int, ...] | None = None


def open_held_out(
    data: TrainingData, step: TrainingStep, monitor: str, progress: bool = True, whole: tuple[int, ...] | None = None
) -> HeldOut | None:
    """Opens the held-out cases; returns None if there are none.

    Args:
      data: the training data.
      step: the training step.
      monitor: the measure that selects the best checkpoint.
      progress: whether the default evaluation of records shows a progress bar.
      whole: the voxels of whole images; None if the step computes whole images.

    Raises:
      ConfigError: there is no evaluation for this data set, or the evaluation does not have the measure.
      DataError: the folder of held-out cases is invalid.
    """
    if not data.eval_dir:
        return None
    evaluation: Any = data.evaluation
    if not evaluation:
        with explained(data.eval_dir, data.kind, "eval_dir", "data"):
            evaluation = data.images.evaluation(data.data_dir, data.eval_dir, data.description, step.task, progress)
    check_offers(evaluation, Evaluation, "evaluation")
    check_measure(monitor, getattr(evaluation, "measures", ()))
    eval_dir = data.eval_dir
    if scores_training_cases(data):
        _logger.warning(
            "eval_dir is the same folder as data_dir: scores of training cases do not predict scores of other cases"
        )
    batches = region_batches = None
    sizes = None if data.has_several_grids else whole or step.sizes
    if hasattr(evaluation, "loss_batches") and LOSS not in evaluation.measures:
        check_takes(evaluation, "loss_batches", "evaluation", ["eval_dir"], ["batch_size", "sizes"])
        options = {"batch_size": step.batch_size, "sizes": sizes}
        batches = functools.partial(evaluation.loss_batches, eval_dir, **options)
        if replaces(evaluation, "loss_region_batches", "loss_batches"):
            options |= {"micro_batches": step.micro_batches}
            region_batches = functools.partial(evaluation.loss_region_batches, eval_dir, **options)
    any_size = sizes is None or data.images.any_size
    return HeldOut(evaluation.open(eval_dir, sizes), batches, sizes, any_size, region_batches, data.patch)


def scores_training_cases(data: TrainingData) -> bool:
    """Returns whether the held-out cases are the training cases; one folder may have separate splits."""
    if data.eval_dir is None or isinstance(data.eval_dir, Subset):
        return False
    if data.images.split != data.held_out_split:
        return False
    return Path(data.eval_dir).resolve() == Path(data.data_dir).resolve()


def make_evaluator(
    held_out: HeldOut,
    trained: Trained,
    checkpoints: Checkpoints,
    folder: Path,
    monitoring: Monitoring,
    stop: Callable[[], str | None],
) -> Evaluator:
    """Builds the observer that evaluates held-out cases, with its prediction and loss programs.

    Args:
      held_out: the held-out cases.
      trained: the training step, which shares its variables with the networks.
      checkpoints: the checkpoints of the training program.
      folder: the run folder.
      monitoring: the measure that selects the best checkpoint, and the steps to evaluate.
      stop: the stop function, as in `training.loop.train`.
    """
    step, program = trained.step, trained.program
    builder = NetworkBuilder(
        task=step.task,
        dtype=step.dtype,
        progress=trained.progress,
        window=None if held_out.patch is None else SlidingWindow(held_out.patch),
        layout=trained.layout,
        mesh_impl=trained.mesh_impl,
    )
    if held_out.any_size and held_out.patch is None:
        network = by_size(lambda sizes: builder.network_of(program, sizes))
    else:
        network = builder.network_of(program, held_out.sizes or ())
    loss, sizes = None, held_out.patch or held_out.sizes
    if held_out.region_batches is not None:
        loss = loss_of_regions(held_out.region_batches, trained, sizes)
    elif held_out.batches is not None:
        loss = loss_of_batches(held_out.batches, trained, sizes)
    return Evaluator(
        folder / EVAL,
        held_out.evaluate,
        network,
        monitoring,
        checkpoints=checkpoints,
        best=BestCheckpoint(folder / BEST, program),
        stop=stop,
        loss=loss,
    )
