"""The training of a job, where data set, network, program and loop meet."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import gin

from mtf_imaging.cli import model_dir as model_dirs
from mtf_imaging.cli.job import Job
from mtf_imaging.cli.job_setup import JobSetup
from mtf_imaging.data.augment import Augmentation
from mtf_imaging.data.data_set import Records
from mtf_imaging.data.grid import format_grid, parse_grid
from mtf_imaging.data.sampling import format_spacing
from mtf_imaging.program import Program
from mtf_imaging.training import adafactor, loop, optimizers, schedules  # noqa: F401  for their names in gin files
from mtf_imaging.training.checkpoints import Checkpoints
from mtf_imaging.training.data_set import DataSet, data_batches, data_sizes
from mtf_imaging.training.describe import describe_slices
from mtf_imaging.training.losses import LossLog
from mtf_imaging.training.micro_batches import MicroBatches, in_parts, part_inputs
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import task_inputs

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
      augmentation: a function as `data.augment.Augmentation` is one, or None.
      checkpoint_every: steps between checkpoints.
      checkpoints_kept: how many of the last stay.
    """

    num_steps: int = gin.REQUIRED
    optimizer: optimizers.Optimizer = gin.REQUIRED
    seed: int = 0
    data: DataSet | None = None
    augmentation: Callable | None = None
    checkpoint_every: int = 100
    checkpoints_kept: int = 3


def train(data_dir: str, model_dir: str, setup: JobSetup, dry_run: bool = False, stop=lambda: None) -> None:
    """Trains on what is in `data_dir`, or goes on; with `dry_run`, builds all and prints what it would be.

    Raises:
      Interrupted: `stop`, which is asked before each step, gave a reason to end.
    """
    job, training = Job(), Training()
    data = training.data or Records(job.window, training.augmentation, setup.spacing)
    sizes = _sizes(setup.resolution, training.data, data, data_dir)
    count, seed = setup.micro_batches, training.seed
    # Of what goes through the network at once: a batch, or a part of one.
    inputs = part_inputs(task_inputs(job.task, setup.batch_size, sizes, dtype=job.dtype), count)

    def batches(start):
        size, first = setup.batch_size // count, start * count
        found = data_batches(data, data_dir, inputs, batch_size=size, sizes=sizes, seed=seed, start_step=first)
        return found if count == 1 else in_parts(found, count)

    if not dry_run:  # what is wrong with the folders is found before the network is built
        first = batches(0)
        if training.data is not None:  # and with what a user's own code makes of them
            next(first)
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
    checkpoints.restore()
    decided = {"setup.resolution": format_grid(sizes)}
    if isinstance(data, Records):
        decided["setup.spacing"] = format_spacing(data.sampling(data_dir).spacing)
    # Only now: the configuration of a run must not be replaced by one that does not fit its checkpoints.
    model_dirs.save_config(model_dir, decided)
    loop.train(
        program=program,
        step=step,
        batches=batches,
        num_steps=training.num_steps,
        checkpoints=checkpoints,
        stop=stop,
        observers=[LossLog(Path(model_dir) / "losses.csv")],
    )


def _sizes(resolution: str | int | None, own: DataSet | None, data: DataSet, data_dir: str) -> tuple[int, ...]:
    """The sizes asked for, or those of the data; one's own may have less than three dimensions."""
    if resolution is None:
        return data_sizes(data, data_dir)
    return parse_grid(resolution, dims=3 if own is None else len(data_sizes(own, data_dir)))
