"""Finds the tensors that an operation reads; mesh_tensorflow does not list all of them as inputs."""

from collections.abc import Iterable

from mtf_imaging import compat
from mtf_imaging.compat import mtf


def inner_operations(op: mtf.Operation) -> list[mtf.Operation]:
    """Returns the operations in the condition and the body of a loop; an empty list for any other operation."""
    if not isinstance(op, mtf.WhileLoopOperation):
        return []
    return [*compat.loop_condition(op).operations, *compat.loop_body(op).operations]


def reads(op: mtf.Operation) -> list[mtf.Tensor]:
    """Returns all tensors that an operation reads, in order; for a loop, the tensors from outside the loop."""
    tensors = op.inputs
    if isinstance(op, mtf.PrintOperation):
        tensors += compat.printed_tensors(op)
    elif isinstance(op, mtf.Depend):
        tensors += compat.dependencies(op)
    elif isinstance(op, mtf.WhileLoopOperation):
        inner = inner_operations(op)
        loop_operations = {op, *inner}
        candidates = [t for each in inner for t in reads(each)]
        candidates += compat.loop_condition(op).outputs + compat.loop_body(op).outputs
        tensors += [t for t in candidates if t.operation not in loop_operations]
    return list(dict.fromkeys(tensors))


def needed(graph: mtf.Graph, outputs: Iterable[mtf.Tensor]) -> list[mtf.Operation]:
    """Returns the operations that tensors or assignments need, in order.

    A graph can contain other operations, because gradients create some that are not needed.

    Args:
      graph: an `mtf.Graph`.
      outputs: the tensors to compute.
    """
    visited, todo = (
        set(),
        [t.operation for t in outputs] + [op for op in graph.operations if isinstance(op, mtf.Assign)],
    )
    while todo:
        op = todo.pop()
        if op not in visited:
            visited.add(op)
            todo += [tensor.operation for tensor in reads(op)]
            todo += compat.assigned_variables(op)
    return [op for op in graph.operations if op in visited]
