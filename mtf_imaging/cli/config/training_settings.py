"""The gin configurable `train`: the settings of training and its data."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gin

from mtf_imaging.cli.config import names
from mtf_imaging.cli.config.job import Job
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.data import TrainingData
from mtf_imaging.jobs.devices import AUTO
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.training.data_set import DataSet
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.step import TrainingStep


@gin.configurable("train", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Training:
    """The settings that only training needs.

    Attributes:
      num_steps: number of steps of the run, including earlier calls.
      optimizer: the optimizer, a `training.optimizers.Optimizer`.
      seed: seed of the initial weights, the data order and random operations.
      initial_weights: weights to start from if the run has no checkpoint: a folder that import_weights wrote, the
        folder of another run, or the path of a checkpoint. Variables that both networks have are set, by name.
      initial_weights_except: scopes, or one scope, whose variables `initial_weights` does not set, such as
        "deeplab/classes" for a network with other classes.
      class_frequencies: frequencies of the classes that a new network predicts before its first step: "data" for those
        of the training data, a fraction for each output of the network, or None to start from biases of 0. train saves
        the fractions in the run's config.gin.
      data: the data set, a `training.data_set.DataSet`; None for records. `job.window` and `augmentation` apply only to
        records.
      augmentation: a function like a `data.augmentation.Augmentation`, or None.
      checkpoint_every: steps between checkpoints.
      checkpoints_kept: number of recent checkpoints to keep.
      checkpoint_async: whether to write checkpoints while the next steps run, which takes host memory for a copy of all
        variables.
      eval_every: steps between evaluations of held-out cases; default: `checkpoint_every`.
      evaluation: the evaluation of held-out cases, a `training.evaluation.Evaluation`; None for the Dice of records,
        the mean IoU of photos, and the average precision of objects.
      monitor: measure that selects the best checkpoint, which is kept in addition to the recent ones; higher is better.
        Default: "lesion" for LiTS, "mean" (of all masks) for other records, "mean_iou" for photos,
        and "mask_ap" or "box_ap" for objects with or without masks.
      fold: number of the held-out fold, counted from 0; None to train on all records.
      num_folds: number of folds; default: as in `splits_file`, or 5 without this file.
      splits_file: file of the folds in the format of nnU-Net's `splits_final.json`; written if it does not exist.
      split_seed: seed of the assignment of cases to folds.
      fold_digest: digest of the fold that the run began with; train writes it and checks it when the run resumes.
    """

    num_steps: int = gin.REQUIRED
    optimizer: Optimizer = gin.REQUIRED
    seed: int = 0
    initial_weights: str | None = None
    initial_weights_except: str | tuple[str, ...] = ()
    class_frequencies: str | tuple[float, ...] | None = "data"
    data: DataSet | None = None
    augmentation: Callable | None = None
    checkpoint_every: int = 100
    checkpoints_kept: int = 3
    checkpoint_async: bool = False
    eval_every: int | None = None
    evaluation: Evaluation | None = None
    monitor: str | None = None
    fold: int | None = None
    num_folds: int | None = None
    splits_file: str | None = None
    split_seed: int = 0
    fold_digest: str | None = None

    def source(self, job: Job, setup: JobSetup, data_dir: str | Path, eval_dir: str | None = None) -> TrainingData:
        """Returns the images of a job.

        Args:
          job: the job.
          setup: the setup of the job.
          data_dir: the folder of the images.
          eval_dir: the folder of the held-out cases.
        """
        return TrainingData(
            data_dir,
            self.data or names.records(job.window, self.augmentation, setup.spacing),
            eval_dir,
            self.evaluation,
            self.fold,
            self.num_folds,
            self.splits_file,
            self.split_seed,
            self.fold_digest,
        )


def training_arguments(setup: JobSetup, data_dir: str, eval_dir: str | None) -> dict[str, Any]:
    """Returns the keyword arguments of `jobs.train` for the bound job."""
    job, training = Job(), Training()
    same = ("optimizer", "num_steps", "seed", "checkpoint_every", "checkpoints_kept", "checkpoint_async", "eval_every")
    same += ("monitor", "initial_weights", "initial_weights_except", "class_frequencies")
    return {
        "task": job.task,
        "data": training.source(job, setup, data_dir, eval_dir),
        "layout": AUTO if setup.has_auto_layout else setup.parsed_layout,
        "devices": setup.devices,
        "resolution": setup.resolution,
        "batch_size": setup.batch_size,
        "micro_batches": setup.micro_batches,
        "dtype": job.dtype,
        **{name: getattr(training, name) for name in same},
    }


def bound_step(setup: JobSetup, data_dir: str | None = None, sizes: tuple[int, ...] | None = None) -> TrainingStep:
    """Returns the training step of the bound job, for explain, search and bench.

    Args:
      setup: the setup of the job.
      data_dir: the folder of the data, which sets the resolution if the setup does not.
      sizes: voxels along each dimension if neither the setup nor the data set the resolution.

    Raises:
      ConfigError: the resolution is not known.
    """
    job, training = Job(), _planned_training()
    if setup.resolution is None and data_dir is None and training.data is None:
        if sizes is None:
            raise ConfigError("the resolution is not known. Fix: give --resolution, or --data_dir.")
    else:
        sizes = training.source(job, setup, data_dir).sizes(setup.resolution)
    description = training.source(job, setup, data_dir).description if data_dir is not None else None
    return TrainingStep(
        task_for(job.task, description),
        training.optimizer,
        sizes,
        setup.batch_size,
        setup.micro_batches,
        job.dtype,
        training.seed,
    )


def planned_num_steps() -> int | None:
    """Returns the number of steps of the bound job, for explain and bench; None if the job does not bind it."""
    return _planned_training().num_steps


def _planned_training() -> Training:
    """Returns the bound settings of training; the planning commands do not need `num_steps`."""
    bound = gin.get_bindings("mtf_imaging.train", resolve_references=False)
    return Training() if "num_steps" in bound else Training(num_steps=None)
