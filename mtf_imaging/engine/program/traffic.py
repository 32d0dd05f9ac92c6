"""The exchanges between processors in a step, by operation."""

from collections.abc import Iterable

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import is_sum, loop_body, loop_condition, mtf
from mtf_imaging.engine.meshes import ShardMeshImpl
from mtf_imaging.engine.meshes.exchange import Exchange, Round, sum_over
from mtf_imaging.engine.meshes.local import partial_dtype

# {tensor: (the operation that computes it, the exchanges of its sum, which no operation has read yet)}
_Lazy = dict[mtf.Tensor, tuple[mtf.Operation, list[Exchange]]]
_SUMS = (  # mesh_tensorflow operations that sum over the dimensions missing from their results
    mtf.ReduceOperation,
    mtf.EinsumOperation,
    mtf.Conv2dOperation,
    mtf.Conv3dOperation,
    mtf.Conv2dTransposeOperation,
    mtf.Conv3dTransposeOperation,
    mtf.Conv2or3dBackpropInputOperation,
    mtf.Conv2or3dBackpropFilterOperation,
)


def traffic(operations: Iterable[mtf.Operation], mesh: ShardMeshImpl) -> dict[mtf.Operation, list[Exchange]]:
    """Returns the exchanges of each operation.

    If several operations need the same halo of a tensor, only the first one exchanges it. A sum over processors is
    computed once, when an operation reads it.

    Args:
      operations: the operations to lower, in order.
      mesh: the mesh, which is used for its geometry only.

    Returns:
      The exchanges by operation; operations without exchanges are omitted.
    """
    result: dict[mtf.Operation, list[Exchange]] = {}
    lazy: _Lazy = {}
    same: dict[mtf.Tensor, mtf.Tensor] = {}
    made, unread = set(), set()

    def settle(tensor: mtf.Tensor) -> None:
        op, exchanges = lazy.pop(tensor, (None, []))
        if exchanges:
            result.setdefault(op, []).extend(exchanges)

    for op in operations:
        inputs = [same.get(tensor, tensor) for tensor in upstream.reads(op)]
        put_off = _stays_lazy(op, inputs, lazy)
        unchanged = passed_on(op)
        same.update({y: same.get(x, x) for y, x in unchanged.items()})
        if put_off:
            axes = lazy[inputs[0]][1][0].axes
            unread.update(inputs)  # unless another operation reads them
            (total,) = sum_over(axes, mesh.slice_shape(op.outputs[0].shape), partial_dtype(op.outputs[0].dtype).size)
            lazy[op.outputs[0]] = (op, list(total.exchanges))
            continue
        if unchanged:  # the operation does not compute anything from its other inputs
            unread.update(tensor for tensor in inputs if tensor not in unchanged.values())
        else:
            for tensor in inputs:
                settle(tensor)
        for exchanges, once, is_lazy in rounds(op, mesh):
            if once is not None:
                tensor, key = once
                once = (same.get(tensor, tensor), key)
                if once in made:
                    continue
                made.add(once)
            if is_lazy:
                lazy[op.outputs[0]] = (op, list(exchanges))
            elif exchanges:
                result.setdefault(op, []).extend(exchanges)
    for tensor in list(lazy):
        if tensor not in unread:
            settle(tensor)
    return result


def passed_on(op: mtf.Operation) -> dict[mtf.Tensor, mtf.Tensor]:
    """Returns {output: input} for the outputs that an operation passes on unchanged."""
    if isinstance(op, mtf.StopGradient):
        return dict(zip(op.outputs, op.inputs, strict=True))
    return getattr(op, "passed_on", {})


def _stays_lazy(op: mtf.Operation, inputs: list[mtf.Tensor], lazy: _Lazy) -> bool:
    """Returns whether an addition of pending sums over the same processors can itself stay pending."""
    (y,) = op.outputs if isinstance(op, mtf.AddOperation) else (None,)
    if y is None or any(x.shape != y.shape for x in inputs):
        return False
    return all(t in lazy for t in inputs) and len({lazy[t][1][0].axes for t in inputs}) == 1


def rounds(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of an operation if it is the first to need them; transfers of weights are not included."""
    if hasattr(op, "exchanges"):
        return op.exchanges(mesh)
    if isinstance(op, mtf.WhileLoopOperation):
        return [_iteration(op, mesh)]
    if isinstance(op, _SUMS):
        (y,), dims = op.outputs, dict.fromkeys(dim for x in op.inputs for dim in x.shape.dims)
        gone, kept = [dim for dim in dims if dim not in y.shape.dims], y.shape.dims
        if isinstance(op, mtf.EinsumOperation):  # sums before it broadcasts to dimensions that no input has
            kept = [dim for dim in kept if dim in dims]
        axes = [axis for axis in mesh.split_axes(mtf.Shape(gone)) if axis is not None]
        lazy, dtype = is_sum(op) and kept == y.shape.dims, partial_dtype(y.dtype) if is_sum(op) else y.dtype
        return sum_over(axes, mesh.slice_shape(mtf.Shape(kept)), dtype.size, lazy)
    return upstream.EXCHANGES.get(type(op), lambda op, mesh: [])(op, mesh)


def _iteration(loop: mtf.WhileLoopOperation, mesh: ShardMeshImpl) -> Round:
    """Returns the exchanges of one iteration, because the number of iterations is unknown before the loop runs."""
    graphs = loop_condition(loop), loop_body(loop)
    by_operation = [traffic(graph.operations, mesh) for graph in graphs]
    return Round([each for exchanges in by_operation for op in exchanges for each in exchanges[op]])
