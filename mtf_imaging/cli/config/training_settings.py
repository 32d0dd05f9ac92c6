"""The gin configurables `job` and `train`, and the classes of data and optimizers that gin files use for them."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import gin
from absl import flags

from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.config.groups import JOB, TRAIN
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.sampling.patch_sizes import check_patch, parse_patch
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup.cleanup import Cleanup, as_cleanup
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.steps.building import StepSettings, training_step
from mtf_imaging.jobs.steps.costs import WholeImage
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.objects.data_set import ObjectAugmentation, Objects
from mtf_imaging.kinds.photos.data_set import PhotoAugmentation, Photos
from mtf_imaging.settings.setting import changed, filled, setting, settings, settings_of, values_of
from mtf_imaging.settings.step import NetworkSettings
from mtf_imaging.settings.training import DataSettings, RunSettings
from mtf_imaging.settings.values import AUTO
from mtf_imaging.training import optimizers
from mtf_imaging.training.data_set import DataSet
from mtf_imaging.training.evaluation import Evaluation
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.task import Task

# The classes themselves do not import gin, and are used only if a setting refers to them.
BY_REFERENCE = (
    Augmentation,
    ObjectAugmentation,
    Objects,
    PhotoAugmentation,
    Photos,
    *(getattr(optimizers, name) for name in optimizers.__all__ if name != "Optimizer"),
)
for _class in BY_REFERENCE:
    gin.external_configurable(_class, module="mtf_imaging")

# The other attributes of records come from `job`, `train` and the setup.
records = gin.external_configurable(Records, module="mtf_imaging", allowlist=["intensities"])


@gin.configurable("job", module="mtf_imaging")
@settings
class Job(*JOB):
    """The settings that training, evaluation and prediction share."""

    task: Task = changed(NetworkSettings, "task", default=gin.REQUIRED)

    @property
    def cleanup(self) -> Cleanup:
        """The postprocessing of the segmentation in evaluate and predict."""
        return filled(Cleanup, self)


@gin.configurable("train", module="mtf_imaging")
@settings
class Training(*TRAIN):
    """The settings that only training needs.

    Attributes:
      data: the data set, a `training.data_set.DataSet`. Default: records. job.window and `augmentation` apply only to
        records.
      augmentation: a function like a `data.augmentation.Augmentation`. Default: none.
    """

    num_steps: int = changed(RunSettings, "num_steps", default=gin.REQUIRED)
    optimizer: Optimizer = changed(RunSettings, "optimizer", default=gin.REQUIRED)
    data: DataSet | None = changed(DataSettings, "data_set", default=None, default_factory=dataclasses.MISSING)
    augmentation: Callable | None = setting(default=None)
    evaluation: Evaluation | None = changed(DataSettings, "evaluation")

    def source(self, job: Job, setup: JobSetup, **folders: object) -> TrainingData:
        """Returns the images of a job.

        Args:
          job: the job.
          setup: the job's setup.
          **folders: data_dir and eval_dir.
        """
        data_set = self.data or records(job.window, self.augmentation, setup.spacing)
        return filled(TrainingData, self, **folders, data_set=data_set)


def bound_settings(cls: type, setup: JobSetup, values: flags.FlagValues, **known: object) -> dict[str, Any]:
    """Returns the keyword arguments of a job from gin bindings and flags.

    Args:
      cls: the class of the job's settings.
      setup: the bound setup.
      values: the flags.
      **known: keyword arguments that are neither bound nor flags.
    """
    job, given = Job(), FlagSettings(values, cls, DataSettings)
    names = [one.name for one in settings_of(cls)]
    words = [one.name for one in settings_of(cls) if one.flag in values and values[one.flag].present]
    known = {name: getattr(given, name) for name in words if hasattr(job, name)} | known  # a flag overrides its binding
    if getattr(given, "cleanup", None) is not None:
        known = known | {"cleanup": as_cleanup(given.cleanup)}
    if "layout" in names:
        is_chosen = setup.has_auto_layout and issubclass(cls, RunSettings)
        known = {"layout": AUTO if is_chosen else setup.parsed_layout} | known
    if not issubclass(cls, RunSettings):
        return values_of(cls, job, setup, given, **known)
    training = Training()
    folders = {name: getattr(given, name) for name in ("data_dir", "eval_dir") if hasattr(given, name)}
    return values_of(cls, job, training, setup, given, **{"data": training.source(job, setup, **folders)} | known)


class PlannedStep(NamedTuple):
    """The training step of a job, for explain, search and bench.

    Attributes:
      step: the step, on patches if the job trains on patches.
      image: the whole images; their spacing is unknown.
    """

    step: TrainingStep
    image: WholeImage


def bound_step(setup: JobSetup, data_dir: str | None = None, sizes: tuple[int, ...] | None = None) -> PlannedStep:
    """Returns the training step of the bound job, for explain, search and bench.

    Args:
      setup: the job's setup.
      data_dir: the folder of the data, which sets the resolution if the setup does not.
      sizes: voxels along each dimension if neither the setup nor the data set the resolution. In that case, the step
        computes whole images.

    Raises:
      ConfigError: the resolution is unknown, or the patch exceeds the images.
    """
    job, training = Job(), _planned_training()
    patch = training.patch if sizes is None else None
    if setup.resolution is None and data_dir is None and training.data is None:
        if sizes is None:
            raise ConfigError("the resolution is not known. Fix: give --resolution, or --data_dir.")
    else:
        sizes = training.source(job, setup, data_dir=data_dir).sizes(setup.resolution)
    description = training.source(job, setup, data_dir=data_dir).description if data_dir is not None else None
    image = tuple(sizes)
    if patch is not None:
        axes = training.source(job, setup, data_dir=data_dir).kind.axes
        sizes = parse_patch(patch, axes)
        check_patch(sizes, image, names=axes)
    own = filled(StepSettings, job, training, setup)
    step = training_step(own, task_for(job.task, description), sizes)
    return PlannedStep(step, WholeImage(image, window_step=job.window_step))


def planned_num_steps() -> int | None:
    """Returns the bound job's number of steps, for explain and bench; None if the job does not bind it."""
    return _planned_training().num_steps


def _planned_training() -> Training:
    """Returns the bound settings of training; the planning commands do not need `num_steps`."""
    bound = gin.get_bindings("mtf_imaging.train", resolve_references=False)
    return Training() if "num_steps" in bound else Training(num_steps=None)
