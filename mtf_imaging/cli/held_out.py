"""The evaluation of held-out cases while a job trains: what the gin parameters and flags say of it, put together."""

import logging
from collections.abc import Callable
from pathlib import Path

from mtf_imaging.cli.job import Job
from mtf_imaging.cli.job_setup import JobSetup
from mtf_imaging.data.data_set import Records
from mtf_imaging.data.sampling import format_spacing
from mtf_imaging.data.splits import Subset
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.held_out import HeldOutRecords
from mtf_imaging.training.best import BestCheckpoint
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.evaluator import Evaluator, check_measure
from mtf_imaging.training.prediction import predictor_of
from mtf_imaging.training.protocols import check_offers
from mtf_imaging.training.run_folder import BEST, EVAL

_logger = logging.getLogger(__name__)


def open_held_out(training, job: Job, data, data_dir: str, eval_dir: str, sizes: tuple[int, ...]) -> Callable:
    """Opens the folder of held-out cases.

    Args:
      training: a `training.Training`.
      job: the job.
      data: the data set that is trained on.
      data_dir: its folder.
      eval_dir: the folder of the held-out cases.
      sizes: of the images that the network takes.

    Returns:
      A function of the network, as `Evaluation.open` returns it.

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
    return evaluation.open(eval_dir, sizes)


def _of_records(data, job: Job, data_dir: str) -> HeldOutRecords:
    if not isinstance(data, Records):
        raise ConfigError(
            f"--eval_dir: train.data is a {type(data).__name__}, and liver and lesions are scored on records alone. "
            "Fix: bind train.evaluation to an evaluation of your own (mtf_imaging.training.evaluation says what it "
            "offers), or leave out --eval_dir."
        )
    return HeldOutRecords(job.window, format_spacing(data.sampling(data_dir).spacing))


def make_evaluator(
    evaluate: Callable, training, job: Job, setup: JobSetup, *, program, checkpoints, model_dir: str, sizes, stop
) -> Evaluator:
    """Builds the network for prediction, on the variables of the program that trains, and the observer that uses it."""
    folder = Path(model_dir)
    network = predictor_of(program, task=job.task, sizes=sizes, dtype=job.dtype, **setup.of_program())
    return Evaluator(
        folder / EVAL,
        evaluate,
        network,
        program=program,
        checkpoints=checkpoints,
        best=BestCheckpoint(folder / BEST, program),
        best_by=training.best,
        every=training.eval_every or training.checkpoint_every,
        num_steps=training.num_steps,
        stop=stop,
    )
