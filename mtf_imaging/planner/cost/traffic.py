"""What the operations of a step send between processors, each exchange where it is made."""

from collections.abc import Iterable

from mtf_imaging import upstream
from mtf_imaging.compat import is_sum, loop_body, loop_condition, mtf
from mtf_imaging.meshes import ShardMeshImpl
from mtf_imaging.meshes.exchange import Exchange, Round, sum_over

_SUMS = (  # operations of mesh_tensorflow that sum over the dimensions that their results no longer have
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
    """What each operation has processors exchange.

    A tensor that several operations want widened by the same window is widened once, for the first of them; a sum over
    processors is made once, when somebody reads it.

    Args:
      operations: those that are lowered, in their order.
      mesh: what they would be lowered on; nothing is.

    Returns:
      Exchanges by operation, for those that have any.
    """
    found, made, same, lazy, unread = {}, set(), {}, {}, set()

    def settle(tensor):
        op, exchanges = lazy.pop(tensor, (None, []))
        if exchanges:
            found.setdefault(op, []).extend(exchanges)

    for op in operations:
        inputs = [same.get(tensor, tensor) for tensor in upstream.reads(op)]
        put_off = _stays_lazy(op, inputs, lazy)
        unchanged = passed_on(op)
        same.update({y: same.get(x, x) for y, x in unchanged.items()})
        if put_off:
            axes = lazy[inputs[0]][1][0].axes
            for tensor in inputs:
                lazy.pop(tensor, None)
            (total,) = sum_over(axes, mesh.slice_shape(op.outputs[0].shape), op.outputs[0].dtype.size)
            lazy[op.outputs[0]] = (op, total.exchanges)
            continue
        if unchanged:  # the operation computes nothing from its other inputs
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
                found.setdefault(op, []).extend(exchanges)
    for tensor in list(lazy):
        if tensor not in unread:
            settle(tensor)
    return found


def passed_on(op):
    """{output: the input that it is}, for an operation that computes nothing."""
    if isinstance(op, mtf.StopGradient):
        return dict(zip(op.outputs, op.inputs, strict=True))
    return getattr(op, "passed_on", {})


def _stays_lazy(op, inputs, lazy):
    """Whether all inputs are sums yet to be made over the same processors, and the operation puts them off further."""
    (y,) = op.outputs if isinstance(op, mtf.AddOperation) else (None,)
    if y is None or any(x.shape != y.shape for x in inputs):
        return False
    return all(t in lazy for t in inputs) and len({lazy[t][1][0].axes for t in inputs}) == 1


def rounds(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """What an operation has processors exchange if it is the first to ask for it; not what weights are sent as."""
    if hasattr(op, "exchanges"):
        return op.exchanges(mesh)
    if isinstance(op, mtf.WhileLoopOperation):
        return [_iteration(op, mesh)]
    if isinstance(op, _SUMS):
        (y,), kept = op.outputs, set(op.outputs[0].shape.dims)
        gone = [dim for x in op.inputs for dim in x.shape.dims if dim not in kept]
        axes = [axis for axis in mesh.split_axes(mtf.Shape(list(dict.fromkeys(gone)))) if axis is not None]
        return sum_over(axes, mesh.slice_shape(y.shape), y.dtype.size, lazy=is_sum(op))
    return upstream.EXCHANGES.get(type(op), lambda op, mesh: [])(op, mesh)


def _iteration(loop, mesh):
    """Returns the exchanges of one iteration; the number of iterations is unknown before the loop runs."""
    found = [traffic(operations, mesh) for operations in (loop_condition(loop).operations, loop_body(loop).operations)]
    return Round([each for exchanges in found for op in exchanges for each in exchanges[op]])
