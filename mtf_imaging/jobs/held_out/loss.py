"""The held-out loss during training, from whole batches or from the regions that this process computes."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.engine.program.program import Program
from mtf_imaging.training.buckets import Sizes, batch_sizes
from mtf_imaging.training.building import building
from mtf_imaging.training.data_set import batch_tensors, errors_on_cases
from mtf_imaging.training.held_out_loss import HeldOutLoss
from mtf_imaging.training.step import TrainingStep

# Returns the held-out loss. Its argument is a function that it calls before each batch.
Loss = Callable[[Callable[[], None]], float]
_TITLE = "held-out cases"


@dataclasses.dataclass(frozen=True)
class Trained:
    """A training step whose weights evaluate held-out cases.

    Attributes:
      step: the training step.
      program: the training program, which shares its variables.
      layout: the layout.
      mesh_impl: the mesh implementation, as in `Program`.
      progress: whether to show progress.
    """

    step: TrainingStep
    program: Program
    layout: Layout = ONE_PROCESSOR
    mesh_impl: str = "auto"
    progress: bool = True

    @functools.cached_property
    def losses(self) -> Callable[[Sizes], HeldOutLoss]:
        """Returns the loss program for an image size, with the micro-batch size of training; built once."""
        return functools.cache(self._build)

    def _build(self, sizes: Sizes) -> HeldOutLoss:
        inputs, where = self.step.resized(sizes).part_inputs, {"layout": self.layout, "mesh_impl": self.mesh_impl}
        with building("building the held-out loss", progress=self.progress):
            return HeldOutLoss(self.step.task, inputs, self.step.micro_batches, variables=self.program, **where)


def loss_of_batches(batches: Callable[[], Iterator[dict]], trained: Trained, sizes: Sizes | None) -> Loss:
    """Returns the function that computes the held-out loss, with the batch and micro-batch sizes of training.

    Args:
      batches: a function that returns an iterator over all held-out batches.
      trained: the training step.
      sizes: the size of all images; None if they have several sizes, for each of which there is a program.
    """
    step = trained.step
    if sizes is not None:
        trained.losses(sizes)

    def compute(check_stop: Callable[[], None]) -> float:
        values: list[float] = []
        for batch in batches():
            check_stop()
            own = batch_sizes(batch) if sizes is None else sizes
            sized = step.resized(own)
            (inputs,) = sized.split(batch_tensors([batch], sized.inputs, _TITLE, len(values)))
            with errors_on_cases(_TITLE, inputs.pop("cases")):
                values.append(trained.losses(own)([inputs["parts"] if step.micro_batches > 1 else inputs]))
        return float(np.mean(values, dtype=np.float64))

    return compute


def loss_of_regions(batches: Callable[..., Iterator[dict]], trained: Trained, sizes: Sizes | None) -> Loss:
    """Returns the loss function that reads only the regions of this process; see `loss_of_batches`.

    Args:
      batches: returns an iterator over the regions of all micro-batches, as `Evaluation.loss_region_batches` does. Its
        argument `regions` maps the sizes of images to the regions of the inputs.
      trained, sizes: the same as in `loss_of_batches`.
    """
    step, losses = trained.step, trained.losses
    if sizes is not None:
        losses(sizes)

    def compute(check_stop: Callable[[], None]) -> float:
        stream, values = batches(regions=lambda own: losses(own).regions), []
        while micro_batches := list(itertools.islice(stream, step.micro_batches)):
            check_stop()
            own = micro_batches[0]["sizes"]
            without = ({name: value for name, value in batch.items() if name != "sizes"} for batch in micro_batches)
            inputs = step.resized(own).part_inputs
            parts = list(batch_tensors(without, inputs, _TITLE, regions=losses(own).regions))
            with errors_on_cases(_TITLE, [case for part in parts for case in part.pop("cases")]):
                values.append(losses(own).of_slices([parts]))
        return float(np.mean(values, dtype=np.float64))

    return compute
