"""The training of a job, where data set, network, program and loop meet."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import gin
import tensorflow as tf

from mtf_imaging.cli import model_dir as model_dirs
from mtf_imaging.cli.job import Job
from mtf_imaging.cli.job_setup import JobSetup
from mtf_imaging.data.augment import Augmentation
from mtf_imaging.data.data_set import Records
from mtf_imaging.data.grid import format_grid, parse_grid
from mtf_imaging.program import Program
from mtf_imaging.training import loop, optimizers, schedules  # noqa: F401  the last two for their names in gin files
from mtf_imaging.training.checkpoints import Checkpoints
from mtf_imaging.training.data_set import DataSet
from mtf_imaging.training.describe import describe_slices
from mtf_imaging.training.losses import LossLog
from mtf_imaging.training.step import training_step

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


def train(data_dir: str, model_dir: str, setup: JobSetup, dry_run: bool = False) -> None:
    """Trains on what is in `data_dir`, or goes on; with `dry_run`, builds all and prints what it would be."""
    job, training = Job(), Training()
    data = training.data or Records(job.window, training.augmentation)
    sizes = parse_grid(setup.resolution) if setup.resolution else data.sizes(data_dir)
    inputs = job.task.inputs(setup.batch_size, sizes, dtype=job.dtype, labels=True)

    def batches(start):
        found = data.batches(data_dir, batch_size=setup.batch_size, sizes=sizes, seed=training.seed, start_step=start)
        return (_cast(batch, inputs) for batch in found)

    if not dry_run:  # what is wrong with the folders is found before the network is built
        batches(0)
        model_dirs.check(model_dir)
    program = Program(training_step(job.task, training.optimizer), inputs, seed=training.seed, **setup.of_program())
    if dry_run:
        print(describe_slices(program, inputs))
        return

    checkpoints = Checkpoints(model_dir, program, training.checkpoint_every, training.checkpoints_kept)
    checkpoints.restore()
    # Only now: the configuration of a run must not be replaced by one that does not fit its checkpoints.
    model_dirs.save_config(model_dir, {"setup.resolution": format_grid(sizes)})
    loop.train(
        program=program,
        batches=batches,
        num_steps=training.num_steps,
        checkpoints=checkpoints,
        observers=[LossLog(Path(model_dir) / "losses.csv")],
    )


def _cast(batch: dict, inputs: dict) -> dict:
    """A batch with its inputs in the dtypes that the program takes."""
    return batch | {name: tf.cast(batch[name], dtype) for name, (_, dtype) in inputs.items() if name in batch}
