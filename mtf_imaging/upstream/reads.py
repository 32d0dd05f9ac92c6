"""Finds the tensors that an operation reads: mesh_tensorflow does not list all of them as inputs."""

from mtf_imaging.compat import mtf


def inner_operations(op):
    """Returns the operations in the condition and the body of a loop; an empty list for any other operation."""
    return [*op._cond_ops, *op._body_ops] if isinstance(op, mtf.WhileLoopOperation) else []


def reads(op):
    """Returns all tensors that an operation reads, in order; for a loop, the tensors from outside the loop."""
    found = op.inputs
    if isinstance(op, mtf.PrintOperation):
        found += op._data
    elif isinstance(op, mtf.Depend):
        found += [t for d in op._dependencies for t in ([d] if isinstance(d, mtf.Tensor) else d.outputs)]
    elif isinstance(op, mtf.WhileLoopOperation):
        inner = inner_operations(op)
        made = {op, *inner}
        tensors = [t for each in inner for t in reads(each)] + [op._cond_output, *op._body_outputs]
        found += [t for t in tensors if t.operation not in made]
    return list(dict.fromkeys(found))


def needed(graph, outputs):
    """Returns the operations that tensors or assignments need, in order; gradients also create unneeded operations.

    Args:
      graph: an `mtf.Graph`.
      outputs: tensors.
    """
    found, todo = set(), [t.operation for t in outputs] + [op for op in graph.operations if isinstance(op, mtf.Assign)]
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [tensor.operation for tensor in reads(op)]
            todo += getattr(op, "_variables", [])  # the variables that it assigns to
    return [op for op in graph.operations if op in found]
