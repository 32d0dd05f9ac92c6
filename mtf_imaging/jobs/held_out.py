"""The evaluation of held-out cases while a job trains: what the gin parameters and flags say of it, put together."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.cli.config.job import Job
from mtf_imaging.cli.config.job_setup import JobSetup
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.held_out import HeldOutRecords
from mtf_imaging.files.run_folder import BEST, EVAL
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.data_set import checked_batches
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.held_out_loss import HeldOutLoss
from mtf_imaging.training.micro_batches import part_inputs, split_batches
from mtf_imaging.training.observers.evaluator import LOSS, Evaluator, check_measure
from mtf_imaging.training.prediction import predictor_of
from mtf_imaging.training.protocols import check_offers, check_takes
from mtf_imaging.training.task import task_inputs

_logger = logging.getLogger(__name__)


class HeldOut(NamedTuple):
    """The held-out cases of a run.

    Attributes:
      evaluate: the function of the network that `Evaluation.open` returns.
      batches: a function that returns the batches for the held-out loss; None for no held-out loss.
    """

    evaluate: Callable
    batches: Callable | None


def open_held_out(training, job: Job, data, data_dir: str, eval_dir: str, setup: JobSetup, sizes) -> HeldOut:
    """Opens the folder of held-out cases.

    Args:
      training: a `training.Training`.
      job: the job.
      data: the data set that is trained on.
      data_dir: its folder.
      eval_dir: the folder of the held-out cases.
      setup: the setup.
      sizes: of the images that the network takes.

    Raises:
      ConfigError: there is no evaluation for this data set, or not the measure to choose the best checkpoint by.
      DataError: the folder cannot be used.
    """
    if training.eval_every is not None and training.eval_every < 1:
        raise ConfigError(f"train.eval_every = {training.eval_every}: it must be at least 1 step.")
    evaluation = training.evaluation or _of_records(data, job, data_dir)
    check_offers(evaluation, Evaluation, "train.evaluation")
    check_measure(training.best, getattr(evaluation, "measures", ()))
    if not isinstance(eval_dir, Subset) and Path(eval_dir).resolve() == Path(data_dir).resolve():
        _logger.warning("--eval_dir is --data_dir: scores of cases that are trained on say nothing about others")
    batches = None
    if hasattr(evaluation, "loss_batches") and LOSS not in evaluation.measures:
        check_takes(evaluation, "loss_batches", "train.evaluation", ["eval_dir"], ["batch_size", "sizes"])
        batches = functools.partial(evaluation.loss_batches, eval_dir, batch_size=setup.batch_size, sizes=sizes)
    return HeldOut(evaluation.open(eval_dir, sizes), batches)


def _of_records(data, job: Job, data_dir: str) -> HeldOutRecords:
    if not isinstance(data, Records):
        raise ConfigError(
            f"--eval_dir: train.data is a {type(data).__name__}, and liver and lesions are scored on records alone. "
            "Fix: bind train.evaluation to an evaluation of your own (mtf_imaging.training.evaluation says what it "
            "offers), or leave out --eval_dir."
        )
    return HeldOutRecords(job.window, format_spacing(data.sampling(data_dir).spacing))


def make_evaluator(
    held_out: HeldOut, training, job: Job, setup: JobSetup, *, program, checkpoints, model_dir: str, sizes, stop
) -> Evaluator:
    """Builds the observer that evaluates held-out cases, and its networks for prediction and for the loss.

    The networks share the variables of the program that trains.
    """
    folder = Path(model_dir)
    network = predictor_of(program, task=job.task, sizes=sizes, dtype=job.dtype, progress=True, **setup.of_program())
    return Evaluator(
        folder / EVAL,
        held_out.evaluate,
        network,
        program=program,
        checkpoints=checkpoints,
        best=BestCheckpoint(folder / BEST, program),
        best_by=training.best,
        every=training.eval_every or training.checkpoint_every,
        num_steps=training.num_steps,
        stop=stop,
        loss=held_out.batches and _held_out_loss(held_out.batches, job, setup, program, sizes),
    )


def _held_out_loss(batches: Callable, job: Job, setup: JobSetup, program, sizes) -> Callable:
    """Returns the held-out loss for `Evaluator`; batches and micro-batches have the same size as in training."""
    count = setup.micro_batches
    whole = task_inputs(job.task, setup.batch_size, sizes, dtype=job.dtype)
    with building("building the held-out loss"):
        loss = HeldOutLoss(job.task, part_inputs(whole, count), count, variables=program, **setup.of_program())

    def compute(check_stop):
        found = checked_batches(batches(), whole, "held-out cases")
        if count > 1:
            found = split_batches(found, whole, count)

        def each():
            for batch in found:
                check_stop()
                batch.pop("cases")
                yield batch["parts"] if count > 1 else batch

        return loss(each())

    return compute
