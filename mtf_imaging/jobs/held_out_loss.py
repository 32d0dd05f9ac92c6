"""The held-out loss during training, from whole batches or from the regions that this process computes."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mtf_imaging.engine.program.program import Program
from mtf_imaging.training.buckets import Sizes, batch_sizes
from mtf_imaging.training.building import building
from mtf_imaging.training.data_set import batch_tensors, errors_on_cases
from mtf_imaging.training.held_out_loss import HeldOutLoss
from mtf_imaging.training.step import TrainingStep

# Returns the held-out loss. Its argument is a function that it calls before each batch.
Loss = Callable[[Callable[[], None]], float]
_TITLE = "held-out cases"


def loss_of_batches(
    batches: Callable[[], Iterator[dict]], step: TrainingStep, program: Program, options: dict[str, Any], progress: bool
) -> Loss:
    """Returns the function that computes the held-out loss, with the batch and micro-batch sizes of training.

    Args:
      batches: a function that returns an iterator over all held-out batches.
      step: the training step.
      program: the training program, which shares its variables.
      options: keyword arguments for `Program`: layout, mesh_impl.
      progress: whether to show progress.
    """
    loss = _build(step, program, options, progress, step.sizes)

    def compute(check_stop: Callable[[], None]) -> float:
        values = []
        for batch in step.split(batch_tensors(batches(), step.inputs, _TITLE)):
            check_stop()
            with errors_on_cases(_TITLE, batch.pop("cases")):
                values.append(loss([batch["parts"] if step.micro_batches > 1 else batch]))
        return float(np.mean(values, dtype=np.float64))

    return compute


def loss_of_buckets(
    batches: Callable[[], Iterator[dict]], step: TrainingStep, program: Program, options: dict[str, Any], progress: bool
) -> Loss:
    """Returns the loss function for images of several sizes, with one program per size; see `loss_of_batches`."""
    build = functools.cache(functools.partial(_build, step, program, options, progress))

    def compute(check_stop: Callable[[], None]) -> float:
        values = []
        for batch in batches():
            check_stop()
            sized = step.resized(batch_sizes(batch))
            (inputs,) = sized.split(batch_tensors([batch], sized.inputs, _TITLE))
            with errors_on_cases(_TITLE, inputs.pop("cases")):
                values.append(build(sized.sizes)([inputs["parts"] if step.micro_batches > 1 else inputs]))
        return float(np.mean(values, dtype=np.float64))

    return compute


def loss_of_regions(
    batches: Callable[..., Iterator[dict]],
    step: TrainingStep,
    program: Program,
    options: dict[str, Any],
    progress: bool,
    *,
    sizes: Sizes | None,
) -> Loss:
    """Returns the loss function that reads only the regions of this process; see `loss_of_batches`.

    Args:
      batches: returns an iterator over the regions of all micro-batches, as `Evaluation.loss_region_batches` does. Its
        argument `regions` maps the sizes of images to the regions of the inputs.
      step, program, options, progress: the same as in `loss_of_batches`.
      sizes: the size of all images; None if they have several sizes.
    """
    build = functools.cache(functools.partial(_build, step, program, options, progress))
    if sizes is not None:
        build(sizes)

    def compute(check_stop: Callable[[], None]) -> float:
        stream, values = batches(regions=lambda own: build(own).regions), []
        while micro_batches := list(itertools.islice(stream, step.micro_batches)):
            check_stop()
            own = micro_batches[0]["sizes"]
            without = ({name: value for name, value in batch.items() if name != "sizes"} for batch in micro_batches)
            inputs = step.resized(own).part_inputs
            parts = list(batch_tensors(without, inputs, _TITLE, regions=build(own).regions))
            with errors_on_cases(_TITLE, [case for part in parts for case in part.pop("cases")]):
                values.append(build(own).of_slices([parts]))
        return float(np.mean(values, dtype=np.float64))

    return compute


def _build(step: TrainingStep, program: Program, options: dict[str, Any], progress: bool, sizes: Sizes) -> HeldOutLoss:
    """Builds the loss program for one image size, with the micro-batch size of training."""
    inputs = step.resized(sizes).part_inputs
    with building("building the held-out loss", progress=progress):
        return HeldOutLoss(step.task, inputs, step.micro_batches, variables=program, **options)
