"""Lowers `mtf.while_loop`; operations in its body are lowered in the same way as outside a loop."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine import compat
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.turn_mesh import TurnMesh
from mtf_imaging.engine.reads import inner_operations, reads
from mtf_imaging.errors import NotSupportedError

_init = mtf.WhileLoopOperation.__init__


def _with_variables_outside(op: mtf.WhileLoopOperation, *args: object, **kwargs: object) -> None:
    """Moves new variables of the condition outside the loop, as mesh_tensorflow does for the body."""
    _init(op, *args, **kwargs)
    operations = compat.loop_condition(op).operations
    variables = [inner for inner in operations if isinstance(inner, mtf.Variable)]
    operations[:] = [inner for inner in operations if inner not in variables]
    op.graph.operations[-1:] = [*variables, op]


def apply() -> None:
    """Replaces the constructor of loops."""
    mtf.WhileLoopOperation.__init__ = _with_variables_outside


def lower(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.WhileLoopOperation`.

    If the body has more outputs than the loop has inputs, the additional outputs are summed over all iterations. The
    loop counts its iterations, because random operations draw different values in each. If processors take turns, the
    first device of each process runs the loop for all processors, because an iteration cannot wait for other turns.

    Raises:
      NotSupportedError: the body assigns to a variable.
    """
    if any(isinstance(inner, mtf.Assign) for inner in inner_operations(op)):
        raise NotSupportedError(
            f"while_loop '{op.name}': its body assigns to a variable, but assignments run once per call, after "
            "all reads. Fix: return the value from the loop and assign it afterwards."
        )
    own, size = lowering.mesh_impl(op), len(op.inputs)
    loop_condition, loop_body = compat.loop_condition(op), compat.loop_body(op)
    laid_out = {t: lowering.lowered(t, op).to_laid_out_tensor() for t in reads(op)}
    mesh = own.at_once() if isinstance(own, TurnMesh) else own
    if isinstance(own, TurnMesh):
        laid_out = {t: own.to_once(x, t.shape) for t, x in laid_out.items()}
    outside = {t: x.tensor_list for t, x in laid_out.items()}

    def run(part: compat.LoopPart, number: tf.Tensor, state: Sequence[Sequence[tf.Tensor]]) -> list[list[tf.Tensor]]:
        """Lowers the condition or the body for iteration `number` and returns the stacks of its results."""
        kept = dict(lowering.tensors)
        # New laid-out tensors are necessary, because operations cache values on them that must not leave the loop.
        lowering.tensors.update({t: LaidOutTensor(stacks) for t, stacks in outside.items()})
        lowering.tensors.update({t: LaidOutTensor(stacks) for t, stacks in zip(part.inputs, state)})
        with lowering.random_state.iteration(number):
            for inner in part.operations:
                lowering.lower(inner)
        stacks = [lowering.lowered(t, op).to_laid_out_tensor().tensor_list for t in part.outputs]
        lowering.tensors.clear()
        lowering.tensors.update(kept)
        return stacks

    def condition(number: tf.Tensor, *state: Sequence[tf.Tensor]) -> tf.Tensor:
        ((first, *_),) = run(loop_condition, number, state)
        return tf.reshape(first, [])

    def body(number: tf.Tensor, *state: Sequence[tf.Tensor]) -> list[Any]:
        results = run(loop_body, number, state)
        sums = [[a + b for a, b in zip(*stacks)] for stacks in zip(results[size:], state[size:])]
        return [number + 1, *results[:size], *sums]

    with tf.device(mesh.host):
        start: list[Any] = [tf.constant(0, tf.int32)]
    start += [outside[t] for t in op.inputs] + [_zeros(mesh, t) for t in loop_body.outputs[size:]]
    kept = lowering.mesh_to_impl, lowering.local_calls
    if mesh is not own:
        lowering.mesh_to_impl, lowering.local_calls = {op.mesh: mesh}, {}
    _, *end = tf.while_loop(condition, body, start, **compat.loop_options(op))
    lowering.mesh_to_impl, lowering.local_calls = kept
    for tensor, stacks in zip(op.outputs, end, strict=True):
        value = LaidOutTensor(stacks)
        if isinstance(own, TurnMesh):
            value = own.from_once(value, tensor.shape)
        lowering.set_tensor_lowering(tensor, value)


def _zeros(mesh: ShardMeshImpl, tensor: mtf.Tensor) -> list[tf.Tensor]:
    """Returns stacks of zeros, one per device."""
    n = mesh.grid.stack_size if mesh.is_split(tensor.shape) else 1
    stacks = []
    for device in mesh.devices:
        with tf.device(device):
            stacks.append(tf.zeros([n, *mesh.slice_shape(tensor.shape)], tensor.dtype))
    return stacks
