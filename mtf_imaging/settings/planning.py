"""The settings of `plan`, `explain`, `search` and `bench`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.layout import ONE_PROCESSOR, Layout
from mtf_imaging.settings.setting import Settings, changed, setting, settings
from mtf_imaging.settings.step import (
    BatchSettings,
    DeviceSettings,
    NetworkSettings,
    ProgressSettings,
    SpacingSettings,
    SpacingTableSettings,
    WorkerSettings,
)
from mtf_imaging.settings.training import RunSettings
from mtf_imaging.settings.values import Resolution

if TYPE_CHECKING:
    from mtf_imaging.jobs.planning import TaskBuilder
    from mtf_imaging.planner.bench.subject import Setup
    from mtf_imaging.planner.cost.hardware import Hardware
    from mtf_imaging.training.optimizers import Optimizer


@settings
class PlannedStepSettings(NetworkSettings, BatchSettings):
    """The training step that is planned."""

    resolution: Resolution = setting("voxels along x, y and z, for instance 64 or x:192,y:192,z:96", unit="voxels")
    optimizer: "Optimizer | None" = changed(RunSettings, "optimizer")
    mesh_impl: str = changed(DeviceSettings, "mesh_impl")


@settings
class CubeSettings(NetworkSettings):
    """The training step of the largest cube."""

    batch_size: int = changed(BatchSettings, "batch_size")
    micro_batches: int = changed(BatchSettings, "micro_batches")
    optimizer: "Optimizer | None" = changed(RunSettings, "optimizer")
    mesh_impl: str = changed(DeviceSettings, "mesh_impl")
    dims: int = setting("number of spatial dimensions of the images", default=3, least=1)


@settings
class HostSettings(Settings):
    """The hosts of the devices."""

    num_hosts: int = setting("number of hosts; each has the same number of devices", default=1, least=1, flag=True)


@settings
class HardwareSettings(HostSettings):
    """The devices that a job is planned for."""

    num_devices: int = setting("number of devices; each computes one processor", least=1, flag=True)
    hardware: "Hardware | str" = setting(
        "kind of device, or its name, such as h200, or a gin file (docs/guides/gpus.md)", flag=True
    )


@settings
class RecipeSettings(Settings):
    """The length and the price of a training."""

    num_steps: int | None = setting(
        "number of steps of the training, to compute its hours. Default: only the steps per second",
        default=None,
        unit="steps",
        least=1,
    )
    price_per_hour: float | None = setting(
        "price of one device for one hour, in any currency, to compute the cost of the training. With a model of the "
        "step, it needs `hardware`",
        default=None,
        flag=True,
    )


@settings
class ExplainSettings(PlannedStepSettings, HostSettings, RecipeSettings, SpacingSettings):
    """The settings of `explain`."""

    layout: Layout = setting(
        "the mesh of processors, with one device per processor, and the dimensions to split over it",
        default=ONE_PROCESSOR,
    )
    hardware: "Hardware | str | None" = changed(
        HardwareSettings,
        "hardware",
        default=None,
        meaning="kind of device, or its name, such as h200, or a gin file (docs/guides/gpus.md). Default: an estimate "
        "without times",
    )


@settings
class MemoryLimitSettings(Settings):
    """The memory of a device."""

    memory_limit: float | None = setting(
        "bytes of device memory available to tensors. Default: the usable share of the memory of `hardware`",
        default=None,
        unit="bytes",
    )


@settings
class SearchSettings(PlannedStepSettings, HardwareSettings, MemoryLimitSettings, ProgressSettings):
    """The settings of `search`."""


@settings
class LargestCubeSettings(CubeSettings, HardwareSettings, MemoryLimitSettings, ProgressSettings):
    """The settings of `largest_cube`."""


@settings
class BenchSettings(PlannedStepSettings, RecipeSettings, ProgressSettings):
    """The settings of `bench`."""

    layouts: "Sequence[Layout | Setup]" = setting(
        "the layouts, or `Setup`s, which add names for the table. The first layout is the reference. Default: one "
        "processor",
        default=(),
    )
    steps: int = setting("number of timed steps of each layout", default=10, unit="steps", least=1, flag=True)
    seed: int = setting("seed of the weights, the random operations and the batch", default=0)


@settings
class PlanSettings(HardwareSettings, SpacingTableSettings, WorkerSettings, ProgressSettings):
    """The settings of `plan`."""

    task: "TaskBuilder" = setting("a function that builds the task, such as `mi.models.unet3d.build_task`")
    data_dir: str | Path = setting("folder of labeled cases, as for convert", flag=True)
    memory: float | None = setting(
        "bytes of memory of a device. Default: the memory of `hardware`", default=None, unit="bytes"
    )
    fingerprint_file: str | Path | None = setting(
        "a JSON file that keeps the fingerprint of the data set for the next plan. Default: none", default=None
    )
    prepare: Callable[[], None] | None = setting("a function that each process calls first", default=None)
