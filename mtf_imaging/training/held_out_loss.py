"""The loss of held-out batches: the training loss, computed by the network in inference mode."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.engine.ops.inference import inference
from mtf_imaging.engine.ops.over_batch import SecondPass, in_pass
from mtf_imaging.engine.program.program import Program
from mtf_imaging.training.micro_batches import SumsOverBatch, part_of
from mtf_imaging.training.step import input_regions
from mtf_imaging.training.task import Inputs, Task, loss_of


class HeldOutLoss:
    """Computes the mean of a task's loss over batches, without changing any variable.

    Dropout is off, and batch norms use their moving statistics; see `ops.inference.inference`. Batches and
    micro-batches have the same size as in training, so a loss that depends on sums over a batch keeps its meaning.

    Args:
      task: a `Task`.
      inputs: {name: (shape string, dtype)} of one micro-batch.
      count: number of micro-batches.
      variables: the `Program` that holds the variables.
      **layout: keyword arguments for `Program`: layout, mesh_impl, devices.
    """

    def __init__(self, task: Task, inputs: Inputs, count: int = 1, *, variables: Program, **layout: object) -> None:
        self._count, self._inputs = count, inputs
        options: dict[str, Any] = {"updates": "none", "variables": variables, **layout}

        def loss(**tensors: mtf.Tensor) -> mtf.Tensor:
            with inference():
                return loss_of(task, tensors)[0]

        if count == 1:
            self._program = Program(loss, inputs, **options)
            return
        self._sums = SumsOverBatch(loss, inputs, count, **options)

        def loss_of_part(**tensors: mtf.Tensor) -> mtf.Tensor:
            with in_pass(SecondPass(self._sums.pop(tensors), count)):
                return loss(**tensors)

        self._program = Program(loss_of_part, inputs | self._sums.specs, **options, part_of=part_of(count))

    @property
    def regions(self) -> dict[str, TensorRegion]:
        """This process's region of each input of a micro-batch."""
        return input_regions(self._program, self._inputs)

    def __call__(self, batches: Iterable[dict[str, Any] | list[dict[str, Any]]]) -> float:
        """Returns the mean loss over batches; each is a dict of inputs or a list of dicts, one per micro-batch."""
        return self.of_slices(self._cut(batch) for batch in batches)

    def of_slices(self, batches: Iterable[list[dict[str, Any]]]) -> float:
        """Returns the mean loss over batches.

        Args:
          batches: for each batch a list with one dict per micro-batch, which contains the `regions` of its inputs.
        """
        return float(np.mean([self._of_batch(batch) for batch in batches], dtype=np.float64))

    def _cut(self, batch: Any) -> list[dict[str, Any]]:
        return [self._program.cut(**batch)] if self._count == 1 else self._sums.cut(batch)

    def _of_batch(self, slices: list[dict[str, Any]]) -> Any:
        if self._count == 1:
            return self._program.call_slices(**slices[0]).numpy()
        whole = self._sums(slices)
        losses = [self._program.call_slices(i, **inputs, **whole).numpy() for i, inputs in enumerate(slices)]
        return np.mean(losses, dtype=np.float64)
