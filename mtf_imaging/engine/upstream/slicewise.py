"""Lowers `mtf.slicewise`, `mtf.cwise` and their gradients.

TensorFlow differentiates the function that every processor calls on its slices. The gradient of an input is summed over
the mesh dimensions that split a result but not the input.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine import compat
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Round, sum_over
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import partial_dtype
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.upstream.faults import title


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
      function: the results as a function of the arguments, on the slices of one processor.
      arguments: for each input of the operation a laid-out tensor with a slice for each processor; None if the results
        do not depend on the input.
      results: `LocalResult`s.
      summed_tails: the tails along which gradients of some inputs are summed; the arguments have no undefined values
        there.
    """

    function: Callable[[Sequence[tf.Tensor | None]], Sequence[tf.Tensor]]
    arguments: Sequence[LaidOutTensor | None]
    results: list[LocalResult]
    summed_tails: dict[str, tails.Tail]


def _axes(mesh: ShardMeshImpl, shape: mtf.Shape) -> frozenset[int]:
    return frozenset(axis for axis in mesh.split_axes(shape) if axis is not None)


def _result_axes(op: mtf.Operation, mesh: ShardMeshImpl) -> list[frozenset[int]]:
    """Returns the distinct sets of mesh axes along which slices of an operation's `LocalResult`s differ, in order."""
    if isinstance(op, mtf.GenericGradOperation):
        return _result_axes(compat.forward_operation(op), mesh)
    return list(dict.fromkeys(_axes(mesh, y.shape) for y in op.outputs if y.dtype.is_floating))


def _sources(op: mtf.Operation) -> list[int]:
    """Returns the indices of the inputs with respect to which `LocalResult`s are differentiated."""
    indices = list(range(len(op.inputs)))
    if isinstance(op, mtf.GenericGradOperation):  # inputs: inputs and outputs of the forward operation, then cotangents
        forward = compat.forward_operation(op)
        indices = [*_sources(forward), *indices[len(forward.inputs) + len(forward.outputs) :]]
    return [i for i in indices if op.inputs[i].dtype.is_floating]


def _argument(mesh: ShardMeshImpl, op: mtf.Operation, x: LaidOutTensor) -> LaidOutTensor:
    """Prepares a laid-out tensor as an argument of an operation's function, for differentiation.

    If the layout splits any tensor of the operation, every processor gets its own slice, so that a gradient with
    respect to the argument has a separate value for each processor. The stacks are new nodes in the graph. Otherwise,
    TensorFlow would return the sum of both gradients for two arguments that are the same tensor. It would also find no
    path to an argument if the function used the tensor from which the argument was reshaped.
    """
    n = mesh.grid.stack_size if any(mesh.is_split(t.shape) for t in op.inputs + op.outputs) else 1

    def local(stack: tf.Tensor) -> tf.Tensor:
        return tf.identity(stack) if stack.shape[0] == n else tf.broadcast_to(stack, [n, *stack.shape[1:]])

    return mesh.map_stacks(local, x)


def _summed_tails(op: mtf.Operation, mesh: ShardMeshImpl) -> dict[str, tails.Tail]:
    """Returns the uneven dimensions that some differentiable input lacks, so that its gradient is a sum over them."""
    differentiable = [t for t in op.inputs + op.outputs if t.dtype.is_floating]
    found = {t.shape.dims[tail.dim].name: tail for t in differentiable for tail in tails.tails_of(mesh, t.shape)}
    lacking = [x.shape.dimension_names for x in differentiable[: sum(x.dtype.is_floating for x in op.inputs)]]
    return {name: tail for name, tail in found.items() if any(name not in names for names in lacking)}


def lower(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.SlicewiseOperation`."""
    mesh, function = lowering.mesh_impl(op), compat.slice_function(op)
    inputs = [lowering.tensors[x].to_laid_out_tensor() for x in op.inputs]
    # A function may refuse integers that do not exist in the whole tensor, such as a divisor of 0.
    inputs = [
        tails.valid_integers(mesh, value, x.shape) if x.dtype.is_integer else value
        for x, value in zip(op.inputs, inputs, strict=True)
    ]
    if compat.gradient_function(op) is None and op in lowering.differentiated:
        summed = _summed_tails(op, mesh)
        # A derivative at an undefined element may be NaN, and NaN times a cotangent of 0 would enter the sum.
        defined = [
            tails.repeat_last(mesh, value, tails.tails_of(mesh, x.shape, summed))
            for x, value in zip(op.inputs, inputs, strict=True)
        ]
        arguments = [_argument(mesh, op, value) for value in defined]
        values = _as_tuple(mesh.slicewise(function, *arguments, keep_gradient=True))
        axes = [_axes(mesh, y.shape) for y in op.outputs]
        lowering.local_calls[op] = LocalCall(
            lambda slices: _as_tuple(function(*slices)),
            arguments,
            [LocalResult(i, *each) for i, each in enumerate(zip(values, axes, strict=True))],
            summed,
        )
    else:
        call = mesh.elementwise if compat.is_own_function(function) else mesh.slicewise
        values = _as_tuple(call(function, *inputs))
    for y, value in zip(op.outputs, values, strict=True):
        lowering.set_tensor_lowering(y, value)


def _as_tuple(values: object) -> tuple:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def lower_gradient(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.GenericGradOperation`.

    Every processor differentiates its own call. If a mesh dimension splits a result but not an input, the gradient of
    that input is summed over the mesh dimension. If it splits neither, all processors along it compute the same value,
    which counts once.
    """
    mesh, forward = lowering.mesh_impl(op), compat.forward_operation(op)
    if forward not in lowering.local_calls:  # it was computed in turns, outside of this loop; see `while_loop`
        lowering.lower(forward)
    call = lowering.local_calls[forward]
    cotangents = [
        _argument(mesh, forward, lowering.masked(dy, call.summed_tails).to_laid_out_tensor())
        for dy in compat.output_gradients(op)
    ]
    arguments = [*call.arguments, *[None] * len(forward.outputs), *cotangents]
    sources, summands, parts = _sources(forward), [], []
    totals: dict[int, LaidOutTensor] = {}
    for axes in _result_axes(forward, mesh):
        alike = [number for number, r in enumerate(call.results) if r.axes == axes and r.value.dtype.is_floating]
        part = _Part(alike, sources, [len(arguments) - len(cotangents) + call.results[r].output for r in alike])
        parts.append(part)
        for i, gradient in zip(sources, _local_gradients(mesh, forward, call, part, arguments), strict=True):
            dims = forward.inputs[i].shape.dimension_names
            absent = [tail for name, tail in call.summed_tails.items() if name not in dims and tail.axis in axes]
            gradient = tails.zero_empty_slices(mesh, gradient, absent)
            summands.append(LocalResult(i, gradient, axes))
            summed = sorted(axes - _axes(mesh, forward.inputs[i].shape))
            gradient = mesh.allreduce(gradient, summed, "SUM") if summed else gradient
            gradient = mesh.canonical(gradient, forward.inputs[i].shape)
            totals[i] = mesh.map_stacks(tf.add, totals[i], gradient) if i in totals else gradient
    function = functools.partial(_traced_gradients, call, parts)
    lowering.local_calls[op] = LocalCall(function, arguments, summands, call.summed_tails)
    for i, dx in enumerate(op.outputs):
        lowering.set_tensor_lowering(dx, totals[i] if i in totals else _zeros(mesh, dx))


class _Part(NamedTuple):
    """One differentiation of a `LocalCall`: the indices of its results, and of its arguments and their cotangents."""

    results: Sequence[int]
    sources: Sequence[int]
    cotangents: Sequence[int]


def _gradients(ys: Sequence[tf.Tensor], xs: Sequence[tf.Tensor], dys: Sequence[tf.Tensor]) -> list[tf.Tensor | None]:
    """Returns the gradients with respect to `xs`; None where TensorFlow finds no path."""
    # One argument may have been computed from another.
    return tf.gradients(ys, xs, dys, stop_gradients=xs)


def _traced_gradients(
    call: LocalCall, parts: Sequence[_Part], arguments: Sequence[tf.Tensor | None]
) -> list[tf.Tensor]:
    """Returns the `lower_gradient` results as a function of one processor's slices."""
    results, gradients = call.function(arguments[: len(call.arguments)]), []
    for part in parts:
        xs = [arguments[i] for i in part.sources]
        found = _gradients([results[r] for r in part.results], xs, [arguments[i] for i in part.cotangents])
        gradients += [tf.zeros_like(x) if dx is None else dx for x, dx in zip(xs, found, strict=True)]
    return gradients


def _local_gradients(
    mesh: ShardMeshImpl,
    op: mtf.Operation,
    call: LocalCall,
    part: _Part,
    arguments: Sequence[LaidOutTensor | None],
) -> list[LaidOutTensor]:
    """Returns the gradients of each processor's results with respect to its own arguments, as laid-out tensors.

    Raises:
      RuntimeError: a result depends on an argument, but TensorFlow finds no path between them in the graph.
    """
    gradients = []
    for shard, device in enumerate(mesh.devices):
        stacks = [None if x is None else x.tensor_list[shard] for x in arguments]
        with tf.device(device):
            xs = [stacks[i] for i in part.sources]
            ys = [call.results[r].value.tensor_list[shard] for r in part.results]
            dxs = _gradients(ys, xs, [stacks[i] for i in part.cotangents])
            if any(dx is None for dx in dxs):
                _check_independent(op, call, part, stacks, dxs)
            gradients.append([tf.zeros_like(x) if dx is None else dx for x, dx in zip(xs, dxs, strict=True)])
    return [LaidOutTensor(stacks) for stacks in zip(*gradients)]


def _check_independent(
    op: mtf.Operation,
    call: LocalCall,
    part: _Part,
    stacks: Sequence[tf.Tensor | None],
    dxs: Sequence[tf.Tensor | None],
) -> None:
    """Checks that no result depends on the sources whose gradient is None, in a graph of the function alone."""
    given = {i: tf.TensorSpec(x.shape[1:], x.dtype) for i, x in enumerate(stacks) if x is not None}
    expected: list[tf.Tensor | None] = []

    def differentiate(*slices: tf.Tensor) -> None:
        arguments = dict(zip(given, slices, strict=True))
        results = call.function([arguments.get(i) for i in range(len(call.arguments))])
        ys, dys = [results[r] for r in part.results], [arguments[i] for i in part.cotangents]
        expected.extend(_gradients(ys, [arguments[i] for i in part.sources], dys))

    tf.function(differentiate, autograph=False).get_concrete_function(*given.values())
    lost = [i for i, dx, wanted in zip(part.sources, dxs, expected, strict=True) if dx is None and wanted is not None]
    if lost:
        names = ", ".join(f"input {i}" for i in lost)
        raise RuntimeError(
            f"{title(op)}: its results depend on {names}, but the graph has no path between them, so the gradient "
            "would be lost. This is a fault of mtf_imaging. Fix: report it with the function."
        )


def _zeros(mesh: ShardMeshImpl, tensor: mtf.Tensor) -> LaidOutTensor:
    shape = mesh.slice_shape(tensor.shape)
    return mesh.canonical(mesh.slicewise(lambda: tf.zeros(shape, tensor.dtype)), tensor.shape)


def gradient_exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of `lower_gradient`, as `Round`s."""
    forward, rounds = compat.forward_operation(op), []
    for axes in _result_axes(forward, mesh):
        for x in (forward.inputs[i] for i in _sources(forward)):
            rounds += sum_over(axes - _axes(mesh, x.shape), mesh.slice_shape(x.shape), partial_dtype(x.dtype).size)
    return rounds
