"""Finds the tensors that an operation reads; mesh_tensorflow does not list all of them as inputs.

It also finds operations within loops, which are not in the list of operations of a graph.
"""

from collections.abc import Iterable

from mtf_imaging.engine import compat
from mtf_imaging.engine.compat import mtf


def inner_operations(op: mtf.Operation) -> list[mtf.Operation]:
    """Returns the operations within a loop and its nested loops; an empty list for other operations."""
    if not isinstance(op, mtf.WhileLoopOperation):
        return []
    direct = [*compat.loop_condition(op).operations, *compat.loop_body(op).operations]
    return [each for inner in direct for each in [*inner_operations(inner), inner]]


def all_operations(graph: mtf.Graph) -> list[mtf.Operation]:
    """Returns every operation of a graph in order, including the operations within loops."""
    return [each for op in graph.operations for each in [*inner_operations(op), op]]


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


def depends_on(x: mtf.Tensor, earlier: mtf.Tensor) -> bool:
    """Returns whether a tensor is computed from another one."""
    visited, stack = set(), [x]
    while stack:
        tensor = stack.pop()
        if tensor is earlier:
            return True
        if tensor.operation not in visited:
            visited.add(tensor.operation)
            stack += reads(tensor.operation)
    return False


def needed(graph: mtf.Graph, outputs: Iterable[mtf.Tensor]) -> list[mtf.Operation]:
    """Returns the operations that tensors or assignments need, in order.

    A graph can contain other operations, because gradients create unneeded ones.

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


def place_in_loop(graph: mtf.Graph, tensor: mtf.Tensor) -> str | None:
    """Returns the loop that contains a tensor, such as "the body of 'while_loop'"; None outside of loops."""
    for op in all_operations(graph):
        if isinstance(op, mtf.WhileLoopOperation):
            for part, name in ((compat.loop_condition(op), "condition"), (compat.loop_body(op), "body")):
                if tensor in part.inputs or tensor.operation in part.operations:
                    return f"the {name} of '{op.name}'"
    return None
