"""Sums over a batch that does not come at once: what a loss needs that is not a mean over examples.

A batch may go through a network in parts, one after the other (see `training/micro_batches.py`). The gradient of a mean
over examples is then the mean of the parts' gradients. That of a function of sums over all examples, as the Dice of a
batch is, needs these sums in every part. So they are found first, in a pass of their own, and given to the second.
"""

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, TypeVar

from mtf_imaging.compat import mtf
from mtf_imaging.errors import NotSupportedError


class FirstPass:
    """Collects the sums of a part.

    Attributes:
      sums: Tensors, one for each call of `over_batch`, in the order of the calls.
    """

    def __init__(self) -> None:
        self.sums: list[mtf.Tensor] = []

    def sum(self, x: mtf.Tensor) -> mtf.Tensor:
        x = _Sum([x], x, 1).outputs[0]
        if any(_depends_on(x.operation.inputs[0], earlier) for earlier in self.sums):
            raise NotSupportedError(
                f"over_batch: '{x.name}' depends on another sum over the batch, which is not known."
            )
        self.sums.append(x)
        return x


class SecondPass:
    """Gives each sum of a part the value that it has over the whole batch.

    Args:
      sums: Tensors[...] of that value, in the order of the calls.
      count: number of parts, over which gradients will be averaged.
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
    """Within it, `over_batch` calls `which.sum`."""
    token = _passes.set(which)
    try:
        yield which
    finally:
        _passes.reset(token)


class _Sum(mtf.Operation):
    """Outputs `value`. `dx = count dy`: an average over `count` parts of it is what the sum's gradient is."""

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
        """Returns {output: input}, for the outputs that are one of the inputs unchanged."""
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


def _depends_on(x: mtf.Tensor, earlier: mtf.Tensor) -> bool:
    seen, stack = set(), [x]
    while stack:
        tensor = stack.pop()
        if tensor is earlier:
            return True
        if tensor.operation not in seen:
            seen.add(tensor.operation)
            stack += tensor.operation.inputs
    return False


def over_batch(x: mtf.Tensor) -> mtf.Tensor:
    """A sum over the examples of a batch, of the whole batch also where this comes in parts, as micro-batches.

    A loss that is a mean over examples needs none. One that is a function of sums over the batch does, and a task that
    uses it trains the same in however many micro-batches, for one more forward pass.

    Args:
      x: Tensor[...], a sum over the batch as it comes; it must not depend on another that `over_batch` returned.

    Returns:
      Tensor[...] of the same dimensions, `sum over parts of x`; `x` itself where the batch comes at once.

    Raises:
      NotSupportedError: `x` depends on another such sum, or a second derivative goes through it. Both are detected only
        if a step has several micro-batches.
    """
    current = _passes.get()
    return current.sum(x) if current else x
