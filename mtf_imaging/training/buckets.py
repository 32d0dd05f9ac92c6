"""Training on images of several sizes, called buckets: one program per size, with the same variables."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mtf_imaging.layout import ONE_PROCESSOR, Layout
from mtf_imaging.program.program import Program
from mtf_imaging.training.data_set import checked_batches
from mtf_imaging.training.micro_batches import in_parts
from mtf_imaging.training.step import BuiltStep, TrainingStep

Sizes = tuple[int, ...]


def batch_sizes(batch: Mapping[str, Any]) -> Sizes:
    """Returns the voxels of the images of a batch along their spatial dimensions.

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
          report: a function that is called after each step is built, with the step, its programs and the seconds that
            this took.
        """
        built: dict[Sizes, BuiltStep] = {}
        shared: Program | None = None
        for step in reversed(self.steps):
            began = time.monotonic()
            built[step.sizes] = step.build(layout, mesh_impl, devices, variables=shared)
            report(step, built[step.sizes], time.monotonic() - began)
            shared = shared or built[step.sizes].program
        return BuiltBuckets(built)

    def batches(self, batches: Iterable[dict], start: int, title: str) -> Iterator[dict]:
        """Checks batches, and groups micro-batches into the inputs of a step.

        Args:
          batches: an endless iterable of batches; with micro-batches, of as many small batches of one size per step.
          start: number of the first step.
          title: description of the source of the batches, for error messages.
        """
        count = self.steps[0].micro_batches
        checked = self._checked(batches, start * count, title)
        return checked if count == 1 else in_parts(checked, count)

    def _checked(self, batches: Iterable[dict], start: int, title: str) -> Iterator[dict]:
        for number, batch in enumerate(batches, start):
            yield from checked_batches([batch], self.step(batch_sizes(batch)).part_inputs, title, number)


class BuiltBuckets:
    """A `BuiltStep` that calls the program for the size of the images of a batch.

    Args:
      built: the programs of each size, which share their variables. The first program holds them.

    Attributes:
      built: the programs of each size.
    """

    def __init__(self, built: Mapping[Sizes, BuiltStep]) -> None:
        self.built = dict(built)
        first = next(iter(self.built.values()))
        self.program, self.network, self.calls = first.program, first.network, first.calls

    def __call__(self, **batch: Any) -> dict[str, Any]:
        return self.built[batch_sizes(batch)](**batch)
