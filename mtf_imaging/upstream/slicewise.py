"""Lowers `mtf.slicewise`, `mtf.cwise` and their gradients.

The gradient of an input is summed over the mesh dimensions that split a result but not the input.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging import compat
from mtf_imaging.compat import mtf
from mtf_imaging.meshes.exchange import Round, sum_over
from mtf_imaging.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl


class LocalResult(NamedTuple):
    """One result of a function that every processor calls on its slices.

    Attributes:
      output: index of the output of the operation; the output is the sum of all results with its index.
      value: a laid-out tensor with a slice for each processor, even if slices are equal.
      axes: mesh axes along which slices differ.
    """

    output: int
    value: LaidOutTensor
    axes: frozenset[int]


class LocalCall(NamedTuple):
    """The arguments and results of a function that every processor calls on its slices, kept for its gradient.

    Attributes:
      arguments: for each input of the operation a laid-out tensor with a slice for each processor; None if the results
        do not depend on the input.
      results: `LocalResult`s.
    """

    arguments: Sequence[LaidOutTensor | None]
    results: list[LocalResult]


def _axes(mesh: ShardMeshImpl, shape: mtf.Shape) -> frozenset[int]:
    return frozenset(axis for axis in mesh.split_axes(shape) if axis is not None)


def _result_axes(op: mtf.Operation, mesh: ShardMeshImpl) -> list[frozenset[int]]:
    """Returns the distinct sets of mesh axes along which slices of an operation's `LocalResult`s differ, in order."""
    if isinstance(op, mtf.GenericGradOperation):
        return _result_axes(compat.forward_operation(op), mesh)
    return list(dict.fromkeys(_axes(mesh, y.shape) for y in op.outputs if y.dtype.is_floating))


def _sources(op: mtf.Operation) -> list[int]:
    """Returns the indices of the inputs with respect to which an operation's `LocalResult`s are differentiated."""
    indices = list(range(len(op.inputs)))
    if isinstance(op, mtf.GenericGradOperation):  # inputs: inputs and outputs of the forward operation, then cotangents
        forward = compat.forward_operation(op)
        indices = [*_sources(forward), *indices[len(forward.inputs) + len(forward.outputs) :]]
    return [i for i in indices if op.inputs[i].dtype.is_floating]


def _expand(mesh: ShardMeshImpl, op: mtf.Operation, x: Lowered) -> LaidOutTensor:
    """Expands a laid-out tensor to a slice for each processor, if the layout splits any tensor of an operation.

    A gradient with respect to the tensor then has a separate value for each processor.
    """
    n = mesh.grid.stack_size if any(mesh.is_split(t.shape) for t in op.inputs + op.outputs) else 1
    x = x.to_laid_out_tensor()
    if x.tensor_list[0].shape[0] == n:
        return x
    return mesh.map_stacks(lambda stack: tf.broadcast_to(stack, [n, *stack.shape[1:]]), x)


def _distinct(
    mesh: ShardMeshImpl, values: Sequence[LaidOutTensor], others: Sequence[LaidOutTensor | None] = ()
) -> list[LaidOutTensor]:
    """Returns the values, with copies of those that are equal to an earlier one or to one of `others`.

    TensorFlow returns the sum of both gradients for each of two arguments that are the same tensor.
    """
    used = {id(stack) for x in others if x is not None for stack in x.tensor_list}
    result = []
    for x in values:
        x = mesh.map_stacks(tf.identity, x) if used & {id(stack) for stack in x.tensor_list} else x
        used |= {id(stack) for stack in x.tensor_list}
        result.append(x)
    return result


def lower(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.SlicewiseOperation`."""
    mesh = lowering.mesh_impl(op)
    # A function may refuse integers that do not exist in the whole tensor, such as a divisor of 0.
    tensors = [lowering.tensors[x] if x.dtype.is_floating else lowering.masked(x) for x in op.inputs]
    arguments = _distinct(mesh, [_expand(mesh, op, x) for x in tensors])
    values = mesh.slicewise(compat.slice_function(op), *arguments)
    values = [values] if len(op.outputs) == 1 else values
    results = [LocalResult(i, v, _axes(mesh, y.shape)) for i, (v, y) in enumerate(zip(values, op.outputs, strict=True))]
    lowering.local_calls[op] = LocalCall(arguments, results)
    for y, value in zip(op.outputs, values):
        lowering.set_tensor_lowering(y, value)


def lower_gradient(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.GenericGradOperation`.

    Every processor differentiates its own call. If a mesh dimension splits a result but not an input, the gradient of
    that input is summed over the mesh dimension. If it splits neither, all processors along it compute the same value,
    which counts once.
    """
    mesh, forward = lowering.mesh_impl(op), compat.forward_operation(op)
    call = lowering.local_calls[forward]
    cotangents = [_expand(mesh, forward, lowering.tensors[dy]) for dy in compat.output_gradients(op)]
    cotangents = _distinct(mesh, cotangents, call.arguments)
    sources, summands = _sources(forward), []
    totals: dict[int, LaidOutTensor] = {}
    for axes in _result_axes(forward, mesh):
        alike = [r for r in call.results if r.axes == axes and r.value.dtype.is_floating]
        gradients = _local_gradients(
            mesh,
            [r.value for r in alike],
            [call.arguments[i] for i in sources],
            [cotangents[r.output] for r in alike],
        )
        for i, gradient in zip(sources, gradients):
            summands.append(LocalResult(i, gradient, axes))
            summed = sorted(axes - _axes(mesh, forward.inputs[i].shape))
            gradient = mesh.allreduce(gradient, summed, "SUM") if summed else gradient
            gradient = mesh.canonical(gradient, forward.inputs[i].shape)
            totals[i] = mesh.map_stacks(tf.add, totals[i], gradient) if i in totals else gradient
    unused = [None] * len(forward.outputs)
    lowering.local_calls[op] = LocalCall([*call.arguments, *unused, *cotangents], summands)
    for i, dx in enumerate(op.outputs):
        lowering.set_tensor_lowering(dx, totals[i] if i in totals else _zeros(mesh, dx))


def _local_gradients(
    mesh: ShardMeshImpl, ys: Sequence[LaidOutTensor], xs: Sequence[LaidOutTensor], dys: Sequence[LaidOutTensor]
) -> list[LaidOutTensor]:
    """Returns the gradients of each processor's results with respect to its own arguments, as laid-out tensors."""
    gradients = []
    for shard, device in enumerate(mesh.devices):
        arguments = [x.tensor_list[shard] for x in xs]
        with tf.device(device):
            gradients.append(
                tf.gradients(
                    [y.tensor_list[shard] for y in ys],
                    arguments,
                    [dy.tensor_list[shard] for dy in dys],
                    stop_gradients=arguments,  # One argument may have been computed from another.
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
            )
    return [LaidOutTensor(stacks) for stacks in zip(*gradients)]


def _zeros(mesh: ShardMeshImpl, tensor: mtf.Tensor) -> LaidOutTensor:
    shape = mesh.slice_shape(tensor.shape)
    return mesh.canonical(mesh.slicewise(lambda: tf.zeros(shape, tensor.dtype)), tensor.shape)


def gradient_exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of `lower_gradient`, as `Round`s."""
    forward, rounds = compat.forward_operation(op), []
    for axes in _result_axes(forward, mesh):
        for x in (forward.inputs[i] for i in _sources(forward)):
            rounds += sum_over(axes - _axes(mesh, x.shape), mesh.slice_shape(x.shape), x.dtype.size)
    return rounds
