"""What only training needs of a job, and where its data come from."""

import dataclasses
from collections.abc import Callable

import gin

from mtf_imaging.cli.config import names  # noqa: F401  registers the names that gin files use
from mtf_imaging.cli.config.job import Job
from mtf_imaging.cli.config.job_setup import JobSetup
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.sampling.grid import parse_grid
from mtf_imaging.training.data_set import DataSet, data_sizes
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.optimizers import Optimizer


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
    optimizer: Optimizer = gin.REQUIRED
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


def data_of(job: Job, training: Training, setup: JobSetup) -> DataSet:
    """One's own data set, or records."""
    return training.data or Records(job.window, training.augmentation, setup.spacing)


def sizes_of(resolution: str | int | None, own: DataSet | None, data: DataSet, data_dir: str) -> tuple[int, ...]:
    """The sizes asked for, or those of the data; one's own may have less than three dimensions."""
    if resolution is None:
        return data_sizes(data, data_dir)
    return parse_grid(resolution, dims=3 if own is None else len(data_sizes(own, data_dir)))
