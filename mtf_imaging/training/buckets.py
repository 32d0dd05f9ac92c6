"""Training on images of several sizes, called buckets: one program per size, with the same variables."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout, TensorRegion
from mtf_imaging.engine.program.program import Program
from mtf_imaging.training.data_set import batch_tensors
from mtf_imaging.training.micro_batches import grouped
from mtf_imaging.training.step import BuiltStep, TrainingStep

Sizes = tuple[int, ...]


def batch_sizes(batch: Mapping[str, Any]) -> Sizes:
    """Returns the sizes of a batch's images along their spatial dimensions, in voxels.

    Args:
      batch: the inputs of a step: `image` [batch, spatial dimensions..., channels], or a list of micro-batches `parts`.
    """
    first = batch["parts"][0] if "parts" in batch else batch
    return tuple(first["image"].shape[1:-1])


@dataclasses.dataclass(frozen=True)
class Buckets:
    """A training step for images of several sizes. Each batch has images of one size.

    Attributes:
      steps: the step for each size; all steps have the same task and the same optimizer.
    """

    steps: tuple[TrainingStep, ...]

    @classmethod
    def of(cls, step: TrainingStep, sizes: Iterable[Sizes]) -> "Buckets":
        """Returns the buckets of a step for several sizes."""
        return cls(tuple(step.resized(each) for each in sizes))

    def step(self, sizes: Sizes) -> TrainingStep:
        """Returns the step for images of one size."""
        return next(step for step in self.steps if step.sizes == sizes)

    def build(
        self,
        layout: Layout = ONE_PROCESSOR,
        mesh_impl: str = "auto",
        devices: Sequence[str] | None = None,
        report: Callable[[TrainingStep, BuiltStep, float], None] = lambda step, built, seconds: None,
    ) -> "BuiltBuckets":
        """Builds the programs of all sizes, the largest first, because it decides whether the memory suffices.

        Args:
          layout: the layout.
          mesh_impl: the mesh implementation, as in `Program`.
          devices: device strings, as in `Program`.
          report: a function that is called after each step is built, with the step, its programs and the build time in
              seconds.
        """
        built: dict[Sizes, BuiltStep] = {}
        shared: Program | None = None
        for step in reversed(self.steps):
            began = time.monotonic()
            built[step.sizes] = step.build(layout, mesh_impl, devices, variables=shared)
            report(step, built[step.sizes], time.monotonic() - began)
            shared = shared or built[step.sizes].program
        return BuiltBuckets(built)

    def batches(
        self, batches: Iterable[dict], start: int, title: str, regions: Mapping[Sizes, Mapping[str, TensorRegion]]
    ) -> Iterator[dict]:
        """Checks batches, and groups micro-batches into the inputs of a step.

        Args:
          batches: an endless iterable of batches; with micro-batches, that many small batches of one size per step.
            Each batch contains the regions of this process, and "sizes", the sizes of the whole images.
          start: number of the first step.
          title: description of the source of the batches, for error messages.
          regions: the regions of this process for each size.

        Yields:
          The arguments of `BuiltBuckets.call_slices`, and "cases".
        """
        count, stream = self.steps[0].micro_batches, iter(batches)
        for step in itertools.count(start):
            small = list(itertools.islice(stream, count))
            sizes = small[0]["sizes"]
            inputs = ({name: value for name, value in batch.items() if name != "sizes"} for batch in small)
            part_inputs = self.step(sizes).part_inputs
            parts = list(batch_tensors(inputs, part_inputs, title, step * count, regions[sizes]))
            yield {**(parts[0] if count == 1 else grouped(parts)), "sizes": sizes}


class BuiltBuckets:
    """A `BuiltStep` that calls the program for the image size of a batch.

    Args:
      built: the programs of each size, which share their variables. The first program holds them.

    Attributes:
      built: the programs of each size.
    """

    def __init__(self, built: Mapping[Sizes, BuiltStep]) -> None:
        self.built = dict(built)
        first = next(iter(self.built.values()))
        self.program, self.network, self.calls = first.program, first.network, first.calls

    def __call__(self, **batch: object) -> dict[str, Any]:
        return self.built[batch_sizes(batch)](**batch)

    def call_slices(self, *, sizes: Sizes, **batch: object) -> dict[str, Any]:
        """Computes one training step on the regions of this process.

        Args:
          sizes: voxels of the whole images along their spatial dimensions.
          **batch: the arguments of `BuiltStep.call_slices`.
        """
        return self.built[sizes].call_slices(**batch)
