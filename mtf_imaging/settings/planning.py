"""The settings of `plan`, `explain`, `search` and `bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.settings.patches import PatchSetting
from mtf_imaging.settings.setting import Settings, changed, setting, settings
from mtf_imaging.settings.step import (
    BatchSettings,
    Devices,
    LayoutSettings,
    NetworkSettings,
    ProgressSettings,
    SpacingSettings,
    SpacingTableSettings,
    WorkerSettings,
)
from mtf_imaging.settings.training import RunSettings
from mtf_imaging.settings.values import Resolution

if TYPE_CHECKING:
    from mtf_imaging.data.description.description import Description
    from mtf_imaging.planner.bench.subject import Setup
    from mtf_imaging.planner.cost.hardware import Hardware
    from mtf_imaging.training.optimizers import Optimizer
    from mtf_imaging.training.task import Task


@settings
class PlannedStepSettings(NetworkSettings, BatchSettings, PatchSetting):
    """The training step that is planned.

    Attributes:
      resolution: voxels along x, y and z, for instance 64 or x:192,y:192,z:96.
    """

    resolution: Resolution = setting(unit="voxels")
    optimizer: "Optimizer | None" = changed(RunSettings, "optimizer")
    frozen: str | Sequence[str] = changed(RunSettings, "frozen", flag=False)
    average_decay: float | None = changed(RunSettings, "average_decay", flag=False)
    mesh_impl: str = changed(Devices, "mesh_impl")


@settings
class CubeSettings(NetworkSettings):
    """The training step of the largest cube.

    Attributes:
      dims: number of spatial dimensions of the images.
    """

    batch_size: int = changed(BatchSettings, "batch_size")
    micro_batches: int = changed(BatchSettings, "micro_batches")
    optimizer: "Optimizer | None" = changed(RunSettings, "optimizer")
    mesh_impl: str = changed(Devices, "mesh_impl")
    dims: int = setting(default=3, least=1)


@settings
class HostSettings(Settings):
    """The hosts of the devices.

    Attributes:
      num_hosts: number of hosts; each has the same number of devices.
    """

    num_hosts: int = setting(default=1, least=1, flag=True)


@settings
class HardwareSettings(HostSettings):
    """The devices for which a job is planned.

    Attributes:
      num_devices: number of devices; each computes one processor.
      hardware: kind of device, or its name, such as h200, or a gin file (docs/guides/gpus.md).
    """

    num_devices: int = setting(least=1, flag=True)
    hardware: "Hardware | str" = setting(flag=True)


@settings
class RecipeSettings(Settings):
    """The length and the price of a training run.

    Attributes:
      num_steps: number of steps of the training run, to compute its hours. Default: only the steps per second.
      price_per_hour: price of one device for one hour, in any currency, to compute the cost of the training run. If
        the step time is not measured, it needs `hardware`.
    """

    num_steps: int | None = setting(default=None, unit="steps", least=1)
    price_per_hour: float | None = setting(default=None, above=0, flag=True)


@settings
class PredictionCostSetting(Settings):
    """The prediction of an image, next to a training step.

    Attributes:
      predict: whether to report the memory and the temporary files of a prediction, too; with patches, always.
    """

    predict: bool = setting(default=False, flag=True)


@settings
class ExplainSettings(PlannedStepSettings, HostSettings, PredictionCostSetting, RecipeSettings, SpacingSettings):
    """The settings of `explain`.

    Attributes:
      layout: the mesh of processors, with one device per processor, and the dimensions to split over it.
      hardware: kind of device, or its name, such as h200, or a gin file (docs/guides/gpus.md). Default: an estimate
        without times.
    """

    layout: Layout = setting(default=ONE_PROCESSOR)
    hardware: "Hardware | str | None" = changed(HardwareSettings, "hardware", default=None)


@settings
class MemoryLimitSettings(Settings):
    """The memory of a device.

    Attributes:
      memory_limit: bytes of device memory available to tensors. Default: the usable share of the memory of `hardware`.
    """

    memory_limit: float | None = setting(default=None, above=0, unit="bytes")


@settings
class SearchSettings(PlannedStepSettings, HardwareSettings, MemoryLimitSettings, ProgressSettings):
    """The settings of `search`."""

    offload_dir: str | None = changed(LayoutSettings, "offload_dir")


@settings
class LargestCubeSettings(CubeSettings, HardwareSettings, MemoryLimitSettings, ProgressSettings):
    """The settings of `largest_cube`.

    Attributes:
      in_turns: whether processors take turns on each device, so that larger cubes fit in more time.
    """

    in_turns: bool = setting(default=False)
    offload_dir: str | None = changed(LayoutSettings, "offload_dir")


@settings
class BenchSettings(PlannedStepSettings, RecipeSettings, ProgressSettings):
    """The settings of `bench`.

    Attributes:
      layouts: the layouts, or `Setup`s, which add names for the table. The first layout is the reference. Default: one
        processor.
      steps: number of timed steps of each layout.
      seed: seed for the weights, the random operations and the batch.
    """

    layouts: "Sequence[Layout | Setup]" = setting(default=())
    steps: int = setting(default=10, unit="steps", least=1, flag=True)
    seed: int = setting(default=0, least=0)


PATCHES = ("auto", "always", "never")  # the components of a plan


class TaskBuilder(Protocol):
    """Builds the task of a plan, for instance `models.unet3d.build_task`."""

    def __call__(self, description: "Description", network: dict[str, Any], loss: dict[str, Any]) -> "Task":
        """Returns a task.

        Args:
          description: the channels, labels and masks.
          network: keyword arguments of the network: those of `choices.network.choose_network`, and recompute.
          loss: keyword arguments of the task, such as class_weights and dice_weight.
        """
        ...


@settings
class PlanSettings(HardwareSettings, SpacingTableSettings, WorkerSettings, ProgressSettings):
    """The settings of `plan`.

    Attributes:
      task: function that builds the task, such as `mi.models.unet3d.build_task`.
      data_dir: folder of labeled cases, as for convert.
      memory: bytes of memory of a device. Default: the memory of `hardware`.
      patches: whether to train on patches instead of whole volumes: auto if whole volumes do not fit with the
        voxels of the data, always, or never.
      fingerprint_file: JSON file that keeps the fingerprint of the data set for the next plan. Default: none.
    """

    task: TaskBuilder = setting()
    data_dir: str | Path = setting(flag=True)
    memory: float | None = setting(default=None, above=0, unit="bytes")
    patches: str = setting(default="auto", choices=PATCHES, flag=True)
    fingerprint_file: str | Path | None = setting(default=None)
    offload_dir: str | None = changed(LayoutSettings, "offload_dir")
