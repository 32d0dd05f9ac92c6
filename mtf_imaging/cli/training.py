"""The training of a job, where data set, network, program and loop meet."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import gin

from mtf_imaging.cli import folds
from mtf_imaging.cli import model_dir as model_dirs
from mtf_imaging.cli.held_out import SCORES, make_evaluator, open_held_out
from mtf_imaging.cli.job import Job
from mtf_imaging.cli.job_setup import JobSetup
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.data_set import Records
from mtf_imaging.data.grid import format_grid, parse_grid
from mtf_imaging.data.sampling import format_spacing
from mtf_imaging.evaluation import progress
from mtf_imaging.program import Program
from mtf_imaging.training import adafactor, loop, optimizers, schedules  # noqa: F401  for their names in gin files
from mtf_imaging.training.checkpoints import Checkpoints
from mtf_imaging.training.data_set import DataSet, data_batches, data_sizes
from mtf_imaging.training.describe import describe_run, describe_slices, fenced
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.events import TrainingEvents
from mtf_imaging.training.losses import LossLog
from mtf_imaging.training.micro_batches import MicroBatches, in_parts, part_inputs, split_batches
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import task_inputs
from mtf_imaging.training.trace import StepTrace, parse_steps

_logger = logging.getLogger(__name__)

gin.external_configurable(Augmentation, module="mtf_imaging")


@gin.configurable("train", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Training:
    """What only training needs.

    Attributes:
      num_steps: in all.
      optimizer: a `training.optimizers.Optimizer`.
      seed: of weights, data order and random operations.
      data: a `training.data_set.DataSet`; None for records, which `job.window` and `augmentation` are for.
      augmentation: a function as `data.augmentation.Augmentation` is one, or None.
      checkpoint_every: steps between checkpoints.
      checkpoints_kept: how many of the last stay.
      eval_every: steps between evaluations of held-out cases; default: `checkpoint_every`.
      evaluation: a `training.evaluation.Evaluation`; None for the Dice of records.
      best: the measure that the best checkpoint, which is kept beside the last, has most of.
      fold: number of the fold that is held out, from 0; None to train on all of the records.
      num_folds: how many there are; default: those of `splits_file`, or 5 where they are made.
      splits_file: nnU-Net's `splits_final.json`, written where there is none.
      split_seed: of the folds that are made.
      fold_digest: of the fold that a run began with, which it goes on with; written by train.
    """

    num_steps: int = gin.REQUIRED
    optimizer: optimizers.Optimizer = gin.REQUIRED
    seed: int = 0
    data: DataSet | None = None
    augmentation: Callable | None = None
    checkpoint_every: int = 100
    checkpoints_kept: int = 3
    eval_every: int | None = None
    evaluation: Evaluation | None = None
    best: str = "lesion"
    fold: int | None = None
    num_folds: int | None = None
    splits_file: str | None = None
    split_seed: int = 0
    fold_digest: str | None = None


def train(
    data_dir: str,
    model_dir: str,
    setup: JobSetup,
    eval_dir: str | None = None,
    dry_run: bool = False,
    stop: Callable = lambda: None,
    profile_steps: str | None = None,
) -> None:
    """Trains on what is in `data_dir`, or goes on; with `dry_run`, builds all and prints what it would be.

    The cases in an `eval_dir`, or held out by a fold, are segmented and scored on the way. With `profile_steps`,
    "10:13", these steps are traced.

    Raises:
      Interrupted: `stop`, which is asked before each step, gave a reason to end.
    """
    job, training = Job(), Training()
    traced = None if profile_steps is None else parse_steps(profile_steps, training.num_steps)
    data = training.data or Records(job.window, training.augmentation, setup.spacing)
    parted = folds.part(training, data_dir, eval_dir, model_dir)
    if parted:
        data_dir, eval_dir = parted.train, parted.val
    sizes = _sizes(setup.resolution, training.data, data, data_dir)
    count, seed = setup.micro_batches, training.seed
    whole = task_inputs(job.task, setup.batch_size, sizes, dtype=job.dtype)
    inputs = part_inputs(whole, count)  # of what goes through the network at once: a batch, or a part of one

    def batches(start):
        options = {"sizes": sizes, "seed": seed}
        if count == 1 or training.data is not None:  # only records are known to come in the same order in any parts
            found = data_batches(data, data_dir, whole, batch_size=setup.batch_size, start_step=start, **options)
            return found if count == 1 else split_batches(found, whole, count)
        size, first = setup.batch_size // count, start * count
        return in_parts(data_batches(data, data_dir, inputs, batch_size=size, start_step=first, **options), count)

    if not dry_run:  # what is wrong with the folders is found before the network is built
        first = batches(0)
        if training.data is not None:  # and with what a user's own code makes of them
            next(first)
    evaluate = eval_dir and open_held_out(training, job, data, data_dir, eval_dir, sizes)
    if not eval_dir and (Path(model_dir) / SCORES).is_dir():
        _logger.warning(
            "%s: held-out cases were scored so far, and no longer are. Fix: to go on, give --eval_dir", model_dir
        )
    options = {"seed": seed, **setup.of_program()}
    if count == 1:
        program = step = network = Program(training_step(job.task, training.optimizer), inputs, **options)
    else:
        step = MicroBatches(job.task, training.optimizer, inputs, count, **options)
        program, network = step.program, step.gradients
    if dry_run:
        print(describe_slices(network, inputs))
        return

    checkpoints = Checkpoints(model_dir, program, training.checkpoint_every, training.checkpoints_kept)
    observers = [LossLog(Path(model_dir) / "losses.csv"), _progress(model_dir, training)]
    if evaluate:
        held = {"program": program, "checkpoints": checkpoints, "model_dir": model_dir, "sizes": sizes, "stop": stop}
        observers.append(make_evaluator(evaluate, training, job, setup, **held))
    checkpoints.restore()
    decided = {"setup.resolution": format_grid(sizes)}
    if isinstance(data, Records):
        decided["setup.spacing"] = format_spacing(data.sampling(data_dir).spacing)
    if setup.cluster:  # where a run computed is no part of what it was: it goes on anywhere
        decided["setup.cluster"] = ""
    if parted:
        decided["train.fold_digest"] = parted.digest
    # Only now: the configuration of a run must not be replaced by one that does not fit its checkpoints.
    config = model_dirs.save_config(model_dir, decided)
    if parted:
        parted.save(model_dir)
    observers.insert(1, _events(model_dir, training, setup, network, inputs, config))
    if traced:
        observers.append(StepTrace(Path(model_dir) / "train", traced))
    loop.train(
        program=program,
        step=step,
        batches=batches,
        num_steps=training.num_steps,
        checkpoints=checkpoints,
        stop=stop,
        observers=observers,
    )


def _progress(model_dir, training) -> progress.Progress:
    folder, every = Path(model_dir), [training.checkpoint_every, training.eval_every or training.checkpoint_every]
    tables = [folder / "losses.csv", folder / SCORES / "scores.csv"]
    options = {"every": every, "num_steps": training.num_steps, "best_by": training.best}
    return progress.Progress(folder / progress.NAME, *tables, **options)


def _events(model_dir, training, setup, network, inputs, config) -> TrainingEvents:
    texts = {"layout": describe_run(network, inputs), "config": "\n".join(fenced(config))}
    rate, folder = training.optimizer.learning_rate, Path(model_dir) / "train"
    return TrainingEvents(folder, learning_rate=rate, batch_size=setup.batch_size, texts=texts)


def _sizes(resolution: str | int | None, own: DataSet | None, data: DataSet, data_dir: str) -> tuple[int, ...]:
    """The sizes asked for, or those of the data; one's own may have less than three dimensions."""
    if resolution is None:
        return data_sizes(data, data_dir)
    return parse_grid(resolution, dims=3 if own is None else len(data_sizes(own, data_dir)))
