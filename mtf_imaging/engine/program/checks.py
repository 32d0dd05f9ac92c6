"""Checks whether a graph over named tensors can be laid out, and reports all faults before lowering starts."""

from collections.abc import Hashable, Iterator

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.reads import all_operations
from mtf_imaging.engine.upstream.faults import title
from mtf_imaging.errors import LayoutError


def graph_tensors(graph: mtf.Graph) -> list[tuple[mtf.Operation, mtf.Tensor]]:
    """Returns pairs (operation, output tensor) of a graph, in order."""
    return [(op, tensor) for op in all_operations(graph) for tensor in op.outputs]


def _clashes(shape: mtf.Shape, layout: Layout) -> Iterator[tuple[mtf.Dimension, mtf.Dimension, str]]:
    """Yields (dimension, dimension, mesh dimension) for each pair that a layout splits over the same mesh dimension."""
    sizes, rules = dict(layout.mesh_shape), dict(layout.rules)
    used: dict[str, mtf.Dimension] = {}
    for dim in shape.dims:
        rule = rules.get(dim.name, "")
        if sizes.get(rule, 1) == 1:
            continue
        if rule in used:
            yield used[rule], dim, rule
        used[rule] = dim


def can_lay_out(shape: mtf.Shape, layout: Layout) -> bool:
    """Returns whether a layout splits every dimension of a shape over a different mesh dimension."""
    return not any(_clashes(shape, layout))


def _clash_faults(graph: mtf.Graph, layout: Layout) -> list[str]:
    """Returns one fault for each pair of dimensions of a tensor that the layout splits over the same mesh dimension.

    Products and selections combine every element of one input with elements of another, so the same holds for the
    dimensions of all their tensors together.
    """
    faults: dict[tuple[str, str], str] = {}
    shapes = [(op, tensor.shape) for op, tensor in graph_tensors(graph)]
    for op in all_operations(graph):
        if isinstance(op, upstream.COMBINING):
            shapes.append((op, mtf.Shape(dict.fromkeys(dim for t in op.inputs + op.outputs for dim in t.shape.dims))))
    for op, shape in shapes:
        for first, dim, rule in _clashes(shape, layout):
            faults.setdefault(
                (first.name, dim.name),
                f"{title(op)}: cannot split both '{first.name}' (size {first.size}) and '{dim.name}' "
                f"(size {dim.size}) over '{rule}'. Fix: drop '{first.name}:{rule}' or '{dim.name}:{rule}', "
                "or give one of them another mesh dimension.",
            )
    return list(faults.values())


def check_layout(graph: mtf.Graph, layout: Layout) -> None:
    """Checks that a graph can be laid out.

    Args:
      graph: an `mtf.Graph`.
      layout: the layout.

    Raises:
      LayoutError: the layout has faults. The error lists each of them with its operation, names, sizes and a fix.
    """
    sizes, rules = dict(layout.mesh_shape), dict(layout.rules)
    # If several operations have the same fault, only the first one is listed.
    op_faults: dict[Hashable, str] = {}
    for op in all_operations(graph):
        own = (
            op.layout_faults(sizes, rules) if hasattr(op, "layout_faults") else upstream.layout_faults(op, sizes, rules)
        )
        for fault in own:
            op_faults.setdefault(fault.key, fault.text)
    faults = list(op_faults.values()) + _clash_faults(graph, layout)
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
        head = f"layout '{layout.rules_string}' on mesh '{layout.mesh_string}' has {count}:"
        raise LayoutError("\n  ".join([head, *faults]))
