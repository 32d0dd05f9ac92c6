"""The training step of a job, or one for each grid of its records, with the same variables."""

import collections
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mtf_imaging.data.sampling.buckets import AnySampling, format_grids, parse_grids
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.engine.layout import Layout, TensorRegion
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import DataError
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.settings.setting import changed, filled, settings
from mtf_imaging.settings.step import BatchSettings, Devices, NetworkSettings
from mtf_imaging.settings.training import LearningSettings
from mtf_imaging.settings.values import Resolution
from mtf_imaging.training.buckets import Buckets, BuiltBuckets, Sizes
from mtf_imaging.training.building import building
from mtf_imaging.training.optimizers import Adam, Optimizer
from mtf_imaging.training.step import BuiltStep, TrainingStep, WeightRules
from mtf_imaging.training.task import Task

_logger = logging.getLogger(__name__)


@settings
class StepSettings(NetworkSettings, BatchSettings):
    """The settings that describe a training step, besides the sizes of its images."""

    optimizer: Optimizer | None = changed(LearningSettings, "optimizer")
    seed: int = changed(LearningSettings, "seed")
    frozen: str | Sequence[str] = changed(LearningSettings, "frozen")
    average_decay: float | None = changed(LearningSettings, "average_decay")


def training_step(own: object, task: Task, sizes: tuple[int, ...]) -> TrainingStep:
    """Returns the training step of a job.

    Args:
      own: the settings of the job; those of `StepSettings` that it lacks have their defaults.
      task: the task, for the data of the job.
      sizes: voxels of an image along its spatial dimensions.
    """
    step = filled(StepSettings, own, task=task)
    return TrainingStep(
        task,
        step.optimizer or Adam(),
        sizes,
        batch_size=step.batch_size,
        micro_batches=step.micro_batches,
        dtype=step.dtype,
        seed=step.seed,
        weights=WeightRules(step.frozen, step.average_decay),
        xla=step.xla,
    )


def open_buckets(data: TrainingData, step: TrainingStep, resolution: Resolution | None) -> Buckets | None:
    """Returns the step for each grid of the training cases; None if all samples have the same size.

    Args:
      data: the training data.
      step: the training step for any of the grids.
      resolution: the required grids, or None.

    Raises:
      DataError: the records have different grids.
    """
    is_planned = data.patch is not None and data.description is None  # the records do not exist yet
    if is_planned or (data.patch is None and not data.has_several_grids):
        return None
    sampling: AnySampling = data.records.sampling(data.data_dir)
    if resolution is not None:
        grids = parse_grids(resolution) if isinstance(resolution, str | int) else (tuple(resolution),)
        if grids != sampling.grids:
            raise DataError(
                f"{data.data_dir}: the records have the grids {format_grids(sampling.grids)}, but resolution is "
                f"{format_grids(grids)}. Fix: leave resolution out, or convert to another folder with this "
                "resolution.",
                ["resolution"],
            )
    if data.patch is not None:
        return None
    occurring = {*data.records.grids(data.data_dir)}  # a fold may not contain any cases of a grid
    return Buckets.of(step, [grid for grid in sampling.grids if grid in occurring])


def bucket_batches(
    data: TrainingData, buckets: Buckets, regions: Mapping[Sizes, Mapping[str, TensorRegion]]
) -> Callable[[int], Iterator[dict]]:
    """Returns a function that maps the number of the first step to an iterator over batches.

    Args:
      data: the training data.
      buckets: the steps of all grids.
      regions: the regions of this process for each grid.
    """
    first = buckets.steps[0]
    count = first.micro_batches

    def make(start: int) -> Iterator[dict]:
        options: dict[str, Any] = {"batch_size": first.batch_size // count, "seed": first.seed, "parts": count}
        options |= {"start_step": start * count, "regions": regions}
        batches = data.records.batches_of_any_size(data.data_dir, **options)
        return buckets.batches(batches, start, "records", regions)

    return make


def build_steps(
    step: TrainingStep, buckets: Buckets | None, data: TrainingData, layout: Layout, devices: Devices, progress: bool
) -> BuiltStep:
    """Builds the training step, or the steps of all buckets, and logs the cost of each bucket.

    Args:
      step: the step, if there are no buckets.
      buckets: the steps of all buckets, or None.
      data: the training data.
      layout: the layout.
      devices: the devices.
      progress: whether to show progress.
    """
    if buckets is None:
        with building("building the step", progress=progress):
            return step.build(layout, devices.mesh_impl)
    numbers: collections.Counter[Sizes] = collections.Counter(data.records.grids(data.data_dir))

    def report(step: TrainingStep, built: BuiltStep, seconds: float) -> None:
        _logger.info(
            "grid %s: %d of %d cases, %s per device by the memory model, built in %.1f s",
            format_grid(step.sizes),
            numbers[step.sizes],
            numbers.total(),
            format_bytes(modeled_memory(step, built.network)),
            seconds,
        )

    with building(f"building the steps of {len(buckets.steps)} grids", progress=progress):
        return buckets.build(layout, devices.mesh_impl, report=report)


def modeled_memory(step: TrainingStep, program: Program) -> int:
    """Returns the planner's estimate of a device's peak memory during a step, in bytes.

    Args:
      step: the step.
      program: its program.
    """
    mesh, layout, turns = program.mesh_impl, program.layout, program.turn_costs
    number = mesh.grid.num_shards
    between = mesh.transport.is_between_processes
    kind = "collective" if between else "stacked" if number == 1 else "placement"
    traced = step.trace(layout, [f"device:{n}" for n in range(number)])
    plan = make_plan(traced, layout, number, mesh_impl=kind, turns=turns)
    if turns is not None and between:
        return plan.weights + plan.state + turns.memory  # those of the only device of this process
    return plan.memory


def each_step(step: TrainingStep, built: BuiltStep) -> list[tuple[TrainingStep, BuiltStep]]:
    """Returns the steps of all buckets with their programs; without buckets, the only step."""
    if isinstance(built, BuiltBuckets):
        return [(step.resized(sizes), each) for sizes, each in sorted(built.built.items())]
    return [(step, built)]
