"""Activations that are computed again in the backward pass instead of being kept for it.

This is checkpointing as in Chen et al. 2016 (arXiv:1604.06174): of a part of a network only what goes in and what comes
out is kept. (mesh_tensorflow's own `recompute_grad` would also assign twice, as batch norm does to its statistics, and
adds a small number to all inputs to make itself wait.)
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError

_ONCE = (mtf.Variable, mtf.Assign, mtf.RandomOperation)  # what is never done again


class _After(mtf.Operation):
    """Outputs `x`, but not before `earlier` is there.

    Nothing else in a TensorFlow graph is ordered: what is to be computed again would be so at once, and kept.
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
    """Outputs `results`, which `operations` made of `sources`; its gradient makes them again."""

    def __init__(self, sources: list[mtf.Tensor], results: list[mtf.Tensor], operations: list[mtf.Operation]) -> None:
        super().__init__([*sources, *results], name="recompute")
        self._sources, self._results, self._operations = sources, results, operations
        self._outputs = [mtf.Tensor(self, y.shape, y.dtype, index=i) for i, y in enumerate(results)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        known = [dy for dy in grad_ys if dy is not None]
        again = {old: _After(new, known).outputs[0] for old, new in zip(self._sources, self.inputs)}
        operations, again = self.graph.clone_operations(self._operations, again)
        sources, results = [again[x] for x in self._sources], [again[y] for y in self._results]
        return mtf.gradients(results, sources, grad_ys, operations) + [None] * len(results)

    def lower(self, lowering: mtf.Lowering) -> None:
        for output, result in self.passed_on.items():
            lowering.set_tensor_lowering(output, lowering.tensors[result])

    @property
    def passed_on(self) -> dict[mtf.Tensor, mtf.Tensor]:
        """Returns {output: input}, for the outputs that are one of the inputs unchanged."""
        return dict(zip(self.outputs, self.inputs[len(self._sources) :]))


def recompute(fn: Callable[..., Any], *inputs: mtf.Tensor) -> Any:
    """`fn(*inputs)`, of which nothing but inputs and results is kept: the backward pass computes the rest again.

    It saves the memory of all tensors in between, for the time of one more forward pass of `fn`. Values and gradients
    are the same: dropout draws the same mask again, and assignments, as batch norm makes, are made once. (Values of
    `mtf.random_uniform` and the like are kept.)

    Args:
      fn: a function of Tensors. It may use other Tensors, too, and make variables.
      *inputs: Tensors.

    Returns:
      What `fn` returned: a Tensor, or a tuple or list of them.

    Raises:
      ShapeError: `fn` returned something else.
    """
    graph = inputs[0].graph
    returned, operations = graph.capture_operations(lambda: fn(*inputs))
    results = list(returned) if isinstance(returned, tuple | list) else [returned]
    for y in results:
        if not isinstance(y, mtf.Tensor):
            raise ShapeError(f"recompute: the function must return Tensors, not {y!r} ({type(y).__name__})")
    again = [op for op in operations if not isinstance(op, _ONCE)]
    made = {t for op in again for t in op.outputs}
    # Without repetitions, in the order of use.
    sources = list(dict.fromkeys(t for t in [*(t for op in again for t in op.inputs), *results] if t not in made))
    outputs = _Recomputed(sources, results, again).outputs
    for t in made.difference(results):
        t.usable = False  # what is used outside would be kept
    return type(returned)(outputs) if isinstance(returned, tuple | list) else outputs[0]
