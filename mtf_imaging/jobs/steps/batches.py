"""Training batches: whole batches, or only the regions of this process if the data set can read them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from mtf_imaging.engine.layout import TensorRegion, parse_shape, whole_tensor
from mtf_imaging.engine.meshes.group import Group
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.processes.devices import check_same_data
from mtf_imaging.jobs.steps.building import bucket_batches, each_step
from mtf_imaging.training.buckets import Buckets, Sizes
from mtf_imaging.training.data_set import data_batches
from mtf_imaging.training.step import BuiltStep, TrainingStep, input_regions
from mtf_imaging.training.task import Inputs

# The regions of this process for each image size: {sizes: {input name: region}}.
RegionsBySize = Mapping[Sizes, Mapping[str, TensorRegion]]
# Maps the number of the first step to an iterator over step inputs.
Batches = Callable[[int], Iterator[dict]]


class Feed(NamedTuple):
    """Training batches with the function that computes a step from them.

    Attributes:
      compute: computes a step from the inputs of a batch: whole inputs, or the regions of this process.
      batches: maps the number of the first step to an iterator over batches.
    """

    compute: Callable[..., dict[str, Any]]
    batches: Batches


def check_data(group: Group, data: TrainingData, step: TrainingStep, buckets: Buckets | None) -> None:
    """Reports mistakes in the folders, and differences between processes, before the network is built.

    Args:
      group: the processes.
      data: the training data.
      step: the training step.
      buckets: the steps of all grids; None if there is only one grid.

    Raises:
      ConfigError: the micro-batches do not divide the batch, or the processes read different data.
      DataError: the folder is invalid.
    """
    if buckets is None and not data.reads_regions:  # mistakes in a custom data set show up with the first batch
        check_same_data(group, data, next(_batches(data, step, None)(0)))
        return
    steps = buckets.steps if buckets else (step,)
    _region_batches(data, step, buckets, {each.sizes: whole_inputs(each.part_inputs) for each in steps})(0)
    if data.is_records:
        check_same_data(group, data, None)


def open_batches(
    group: Group, data: TrainingData, step: TrainingStep, buckets: Buckets | None, built: BuiltStep
) -> Feed:
    """Opens the training batches that this process reads.

    Args:
      group: the processes.
      data: the training data.
      step: the training step.
      buckets: the steps of all grids; None if there is only one grid.
      built: the programs of the step, or of all grids.

    Raises:
      ConfigError: the processes read different cases from a custom data set.
      DataError: the first batch of a custom data set is invalid.
    """
    if buckets is None and not data.reads_regions:
        return Feed(built, _batches(data, step, None))
    regions = {each.sizes: input_regions(program.network, each.part_inputs) for each, program in each_step(step, built)}
    batches = _region_batches(data, step, buckets, regions)
    if not data.is_records:
        check_same_data(group, data, {"cases": [next(batches(0))["cases"]]})
    return Feed(built.call_slices, batches)


def _region_batches(data: TrainingData, step: TrainingStep, buckets: Buckets | None, regions: RegionsBySize) -> Batches:
    return bucket_batches(data, buckets, regions) if buckets else _batches(data, step, regions[step.sizes])


def _batches(data: TrainingData, step: TrainingStep, regions: Mapping[str, TensorRegion] | None) -> Batches:
    def make(batch_size: int, start_step: int, inputs: Inputs) -> Iterator[dict]:
        options: dict[str, Any] = {
            "batch_size": batch_size,
            "sizes": step.sizes,
            "seed": step.seed,
            "start_step": start_step,
        }
        return data_batches(data.data_set, data.data_dir, inputs, **options, regions=regions)

    return lambda start: step.batches(make, start, by_part=data.has_fixed_order)


def whole_inputs(inputs: Inputs) -> dict[str, TensorRegion]:
    """Returns the regions for a process that computes everything."""
    return {name: whole_tensor(tuple(n for _, n in parse_shape(shape, name))) for name, (shape, _) in inputs.items()}
