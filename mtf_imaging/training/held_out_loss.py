"""The loss of held-out batches: that of training, computed by the network as it predicts."""

from collections.abc import Iterable

import numpy as np

from mtf_imaging.ops.inference import inference
from mtf_imaging.ops.over_batch import SecondPass, in_pass
from mtf_imaging.program import Program
from mtf_imaging.training.micro_batches import SumsOverBatch, part_of
from mtf_imaging.training.task import loss_of


class HeldOutLoss:
    """Computes the mean of a task's loss over batches; changes no variable.

    Nothing is dropped, and batch norms use their moving statistics: see `ops.inference.inference`. Batches are of the
    size that is trained on, and come in the same micro-batches, so a loss that is a function of sums over a batch means
    the same here as in training.

    Args:
      task: a `Task`.
      inputs: of a batch, or of one part of it: (shape string, dtype) by name.
      count: number of parts.
      variables: the `Program` that holds the variables.
      **layout: what else a `Program` takes: mesh_shape, layout, mesh_impl, devices.
    """

    def __init__(self, task, inputs: dict, count: int = 1, *, variables: Program, **layout):
        self._count = count
        options = {"updates": "none", "variables": variables, **layout}

        def loss(**tensors):
            with inference():
                return loss_of(task, tensors)[0]

        if count == 1:
            self._program = Program(loss, inputs, **options)
            return
        self._sums = SumsOverBatch(loss, inputs, count, **options)

        def loss_of_part(**tensors):
            with in_pass(SecondPass(self._sums.pop(tensors), count)):
                return loss(**tensors)

        self._program = Program(loss_of_part, inputs | self._sums.specs, **options, part_of=part_of(count))

    def __call__(self, batches: Iterable) -> float:
        """The mean over batches, each a dict of the inputs, or a list of them, one a part."""
        return float(np.mean([self._of_batch(batch) for batch in batches], dtype=np.float64))

    def _of_batch(self, batch):
        if self._count == 1:
            return self._program(**batch).numpy()
        whole = self._sums(batch)
        losses = [self._program.call_part(i, **inputs, **whole).numpy() for i, inputs in enumerate(batch)]
        return np.mean(losses, dtype=np.float64)
