"""Sums over a whole batch, for a training step that computes the batch in micro-batches.

The gradient of a mean over examples is the mean of the micro-batch gradients (see `training/micro_batches.py`). The
gradient of a function of sums over all examples, such as the Dice of a batch, needs these sums in every micro-batch. A
first pass therefore computes the sums, and a second pass uses them.
"""

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, TypeVar

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.reads import depends_on, place_in_loop
from mtf_imaging.errors import NotSupportedError


class FirstPass:
    """Collects the sums of a micro-batch."""

    def __init__(self) -> None:
        self._sums: list[mtf.Tensor] = []

    @property
    def sums(self) -> list[mtf.Tensor]:
        """Tensors, one for each call of `over_batch`, in the order of the calls.

        Raises:
          NotSupportedError: a sum is in a loop, where it has a different value in every iteration.
        """
        for x in self._sums:
            if place := place_in_loop(x.graph, x):
                raise NotSupportedError(
                    f"over_batch: '{x.operation.name}' is in {place}, so a micro-batch has a sum for every iteration. "
                    "Fix: call over_batch outside the loop, or use micro_batches=1.",
                    settings=["micro_batches"],
                )
        return self._sums

    def sum(self, x: mtf.Tensor) -> mtf.Tensor:
        x = _Sum([x], x, 1).outputs[0]
        if any(depends_on(x.operation.inputs[0], earlier) for earlier in self._sums):
            raise NotSupportedError(
                f"over_batch: '{x.name}' depends on another sum over the batch, which a micro-batch does not have. "
                "Fix: compute it from sums that do not depend on each other."
            )
        self._sums.append(x)
        return x


class SecondPass:
    """Replaces each sum of a micro-batch by the sum over the whole batch.

    Args:
      sums: the sums over the whole batch, Tensors[...] in the order of the calls.
      count: number of micro-batches, over which the training step averages gradients.
    """

    def __init__(self, sums: Iterable[mtf.Tensor], count: int) -> None:
        self._sums, self._count = iter(sums), count

    def sum(self, x: mtf.Tensor) -> mtf.Tensor:
        whole = next(self._sums)
        return _Sum([x, whole], whole, self._count).outputs[0]


_passes: contextvars.ContextVar[FirstPass | SecondPass | None] = contextvars.ContextVar("_passes", default=None)
_Pass = TypeVar("_Pass", FirstPass, SecondPass)


@contextlib.contextmanager
def in_pass(which: _Pass) -> Iterator[_Pass]:
    """Makes `over_batch` call `which.sum` within a `with` block."""
    token = _passes.set(which)
    try:
        yield which
    finally:
        _passes.reset(token)


class _Sum(mtf.Operation):
    """Outputs `value`, with the gradient `dx = count dy`.

    The average of this gradient over `count` micro-batches is the gradient of the sum over the whole batch.
    """

    def __init__(self, inputs: Sequence[mtf.Tensor], value: mtf.Tensor, count: int) -> None:
        super().__init__(inputs, name="over_batch")
        self._count = count
        self._outputs = [mtf.Tensor(self, value.shape, value.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        dx = grad_ys[0] if self._count == 1 else _SumGrad(grad_ys[0], self._count).outputs[0]
        return [dx, None][: len(self.inputs)]

    def lower(self, lowering: mtf.Lowering) -> None:
        lowering.set_tensor_lowering(self.outputs[0], lowering.tensors[self.inputs[-1]])

    @property
    def passed_on(self) -> dict[mtf.Tensor, mtf.Tensor]:
        """Returns {output: input} for the outputs that equal one of the inputs."""
        return {self.outputs[0]: self.inputs[-1]}


class _SumGrad(mtf.Operation):
    """`dx = count dy` of a `_Sum`.

    `dy` depends on the sum over the whole batch, so its derivative is a sum over all micro-batches. A single
    micro-batch cannot compute that sum.
    """

    def __init__(self, dy: mtf.Tensor, count: int) -> None:
        super().__init__([dy], name="over_batch_dx")
        self._count = count
        self._outputs = [mtf.Tensor(self, dy.shape, dy.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> NoReturn:
        raise NotSupportedError(
            f"over_batch: '{self.name}' is a gradient through a sum over {self._count} micro-batches, so it cannot be "
            "differentiated again. Fix: use micro_batches=1, or a loss that is a mean over examples.",
            settings=["micro_batches"],
        )

    def lower(self, lowering: mtf.Lowering) -> None:
        dy = lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        dx = lowering.mesh_impl(self).map_stacks(lambda dy: dy * self._count, dy)
        lowering.set_tensor_lowering(self.outputs[0], dx)


def over_batch(x: mtf.Tensor) -> mtf.Tensor:
    """Returns the sum of `x` over all micro-batches of a training step.

    A loss that is a function of sums over examples, such as the Dice of a batch, passes each sum through this function.
    Training then gives the same result with any number of micro-batches, at the cost of one more forward pass. A loss
    that is a mean over examples does not need this function.

    Args:
      x: Tensor[...], a sum over the examples of a micro-batch. It must not depend on another result of `over_batch`.

    Returns:
      Tensor[...] with the shape of `x`. If the step computes the batch at once, it is `x` itself.

    Raises:
      NotSupportedError: `x` depends on another result of `over_batch` or is in a loop, or a second derivative passes
        through `x`. These errors are detected only if a step has several micro-batches.
    """
    current = _passes.get()
    return current.sum(x) if current else x
