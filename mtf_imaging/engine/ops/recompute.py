"""Recomputation of activations in the backward pass, to keep fewer of them in memory.

This is gradient checkpointing (Chen et al. 2016, arXiv:1604.06174): a block of a network keeps only its inputs and
results. mesh_tensorflow's own `recompute_grad` is not used, because it adds a small number to all inputs to delay the
recomputation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ShapeError

_ONCE = (mtf.Variable, mtf.Assign, mtf.RandomOperation, mtf.WhileLoopOperation)  # never repeated


class _After(mtf.Operation):
    """Outputs `x` after the tensors `earlier` are computed.

    TensorFlow runs an operation as soon as its inputs exist. Without this delay, it would recompute the activations
    early and keep them in memory.
    """

    def __init__(self, x: mtf.Tensor, earlier: Sequence[mtf.Tensor]) -> None:
        super().__init__([x, *earlier], name="after")
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [*grad_ys, *[None] * (len(self.inputs) - 1)]

    def lower(self, lowering: mtf.Lowering) -> None:
        def local(x: tf.Tensor, *earlier: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies(earlier):
                return tf.identity(x)

        stacks = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        lowering.set_tensor_lowering(self.outputs[0], lowering.mesh_impl(self).map_stacks(local, *stacks))


class _Recomputed(mtf.Operation):
    """Outputs `results`, which `operations` computed from `sources`. Its gradient computes them again."""

    def __init__(self, sources: list[mtf.Tensor], results: list[mtf.Tensor], operations: list[mtf.Operation]) -> None:
        super().__init__([*sources, *results], name="recompute")
        self._sources, self._results, self._operations = sources, results, operations
        self._outputs = [mtf.Tensor(self, y.shape, y.dtype, index=i) for i, y in enumerate(results)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        gradients = [dy for dy in grad_ys if dy is not None]
        again = {old: _After(new, gradients).outputs[0] for old, new in zip(self._sources, self.inputs)}
        operations, again = self.graph.clone_operations(self._operations, again)
        sources, results = [again[x] for x in self._sources], [again[y] for y in self._results]
        return mtf.gradients(results, sources, grad_ys, operations) + [None] * len(results)

    def lower(self, lowering: mtf.Lowering) -> None:
        for output, result in self.passed_on.items():
            lowering.set_tensor_lowering(output, lowering.tensors[result])

    @property
    def passed_on(self) -> dict[mtf.Tensor, mtf.Tensor]:
        """Returns {output: input} for the outputs that equal one of the inputs."""
        return dict(zip(self.outputs, self.inputs[len(self._sources) :]))


def recompute(fn: Callable[..., Any], *inputs: mtf.Tensor) -> Any:
    """Calls `fn(*inputs)`, and recomputes its activations in the backward pass instead of keeping them.

    Only the inputs and the results of `fn` stay in memory, at the cost of one more forward pass of `fn`. Values and
    gradients do not change: dropout draws the same masks again, and assignments, such as the updates of batch-norm
    statistics, run once. The values of mesh_tensorflow's random operations, such as `mtf.random_uniform`, and the
    results of loops stay in memory.

    Args:
      fn: a function of Tensors. It may use other Tensors and create variables.
      *inputs: Tensors, the arguments of `fn`.

    Returns:
      The results of `fn`: a Tensor, or a tuple or list of Tensors.

    Raises:
      ShapeError: `fn` returned something other than Tensors.
    """
    graph = inputs[0].graph
    returned, operations = graph.capture_operations(lambda: fn(*inputs))
    results = list(returned) if isinstance(returned, tuple | list) else [returned]
    for y in results:
        if not isinstance(y, mtf.Tensor):
            raise ShapeError(f"recompute: the function must return Tensors, not {y!r} ({type(y).__name__})")
    again = [op for op in operations if not isinstance(op, _ONCE)]
    computed = {t for op in again for t in op.outputs}
    # The keys of a dict are unique and keep the order of use.
    sources = list(dict.fromkeys(t for t in [*(t for op in again for t in op.inputs), *results] if t not in computed))
    outputs = _Recomputed(sources, results, again).outputs
    for t in computed.difference(results):
        t.usable = False  # A use outside of `fn` would keep the tensor in memory.
    return type(returned)(outputs) if isinstance(returned, tuple | list) else outputs[0]
