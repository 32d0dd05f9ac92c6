"""From a graph over named tensors to TensorFlow: the layout is checked as a whole, then every operation is lowered."""

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.layout import format_layout, format_shape
from mtf_imaging.meshes.laid_out import CanonicalSum, LaidOutTensor


def tensors_of(graph):
    """Every tensor of a graph with the operation that makes it, in the order of the graph."""
    return [(op, tensor) for op in graph.operations for tensor in op.outputs]


def needed(graph, outputs):
    """The operations of a graph, in its order, that tensors or an assignment come of; gradients make others, too.

    Args:
      graph: an `mtf.Graph`.
      outputs: tensors.
    """
    found, todo = set(), [t.operation for t in outputs] + [op for op in graph.operations if isinstance(op, mtf.Assign)]
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            printed = op._data if isinstance(op, mtf.PrintOperation) else []  # upstream has them not among its inputs
            todo += [tensor.operation for tensor in [*op.inputs, *printed]]
            todo += getattr(op, "_variables", [])  # assigned to
    return [op for op in graph.operations if op in found]


def _size_faults(graph, mesh_shape, layout):
    """Dimensions that the layout splits into unequal slices:

    One fault for each name and size, at the operation it is first met.
    """
    seen = {}
    for op, tensor in tensors_of(graph):
        for dim in tensor.shape.dims:
            rule = layout.get(dim.name)
            if rule and dim.size % mesh_shape[rule] and (dim.name, dim.size) not in seen:
                parts = mesh_shape[rule]
                below, above = dim.size // parts * parts, -(-dim.size // parts) * parts
                nearest = f"{below} and {above}" if below else f"{above}"
                seen[dim.name, dim.size] = (
                    op,
                    f"{_title(op)}: cannot split '{dim.name}' (size {dim.size}) over '{rule}' (size {parts}): "
                    f"{dim.size} is not divisible by {parts}, nearest legal: {nearest}. "
                    f"Fix: pad '{dim.name}' to {above}, or drop '{dim.name}:{rule}'.",
                )
    return seen


def _clash_faults(graph, layout):
    """Tensors of which the layout splits two dimensions over one mesh dimension."""
    faults = {}
    for op, tensor in tensors_of(graph):
        used = {}
        for dim in tensor.shape.dims:
            rule = layout.get(dim.name)
            if rule is None:
                continue
            if rule in used:
                first = used[rule]
                faults.setdefault(
                    (first.name, dim.name),
                    f"{_title(op)}: cannot split both '{first.name}' (size {first.size}) and '{dim.name}' "
                    f"(size {dim.size}) over '{rule}'. Fix: drop '{first.name}:{rule}' or '{dim.name}:{rule}', "
                    "or give one of them another mesh dimension.",
                )
            used[rule] = dim
    return list(faults.values())


_KINDS = {mtf.ImportOperation: "input", mtf.Variable: "variable"}


def _title(op):
    kind = getattr(op, "kind", None) or _KINDS.get(type(op), type(op).__name__)
    return f"{kind} '{op.name}'"


def check(graph, mesh_shape, layout):
    """Checks that a graph can be laid out, before any of it is lowered.

    Args:
      graph: an `mtf.Graph`.
      mesh_shape: pairs (mesh dimension, size).
      layout: pairs (tensor dimension, mesh dimension).

    Raises:
      LayoutError: all faults, each with its operation, the names and sizes, and a fix.
    """
    sizes, rules = dict(mesh_shape), dict(layout)
    size_faults = _size_faults(graph, sizes, rules)
    # An operation explains its own faults better (a window op, input and output size together), the first of equal ones
    # for all.
    op_faults, explained, ways_out = {}, set(), {}
    for op in graph.operations:
        for fault in getattr(op, "layout_faults", lambda sizes, rules: [])(sizes, rules):
            explained |= fault.explains
            op_faults.setdefault(fault.key, fault.text)
            ways_out[fault.way_out] = None
    plain = [text for key, (op, text) in size_faults.items() if key not in explained or not op.inputs]
    faults = plain + list(op_faults.values()) + _clash_faults(graph, rules)
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
        head = f"layout '{format_layout(layout)}' on mesh '{format_shape(mesh_shape)}' has {count}:"
        raise LayoutError("\n  ".join([head, *faults, *filter(None, ways_out)]))


def reshaped_axes(op, mesh):
    """The mesh axes that a reshape has split something else, or nothing: {axis: (before, after)}.

    That is, for the dimension which it splits, the product of the sizes of those up to it; None where it splits none.
    """
    (x,), (y,) = op.inputs, op.outputs
    places = zip(mesh.mesh_axis_to_cumprod(x.shape), mesh.mesh_axis_to_cumprod(y.shape), strict=True)
    return {axis: place for axis, place in enumerate(places) if place[0] != place[1]}


def lower_reshape(op, lowering):
    """Lowers a reshape, by upstream's own way only where that is right.

    mesh_tensorflow 0.1.21 changes the split of one mesh dimension after the other, which mixes up slices where two
    change at once (`reshape` of x:rows,y:cols to y:cols,x:rows of other sizes), and gives up on some others. There
    the slices are gathered along the mesh dimensions that change, reshaped, and split anew. Where no split changes, as
    where dimensions only get other names, a stack is reshaped as it is.
    """
    mesh = lowering.mesh_impl(op)
    (x,), (y,) = op.inputs, op.outputs
    changes = reshaped_axes(op, mesh)
    if not changes:
        value = lowering.tensors[x].to_laid_out_tensor()
        slice_shape = mesh.slice_shape(y.shape)
        value = mesh.map_stacks(lambda stack: tf.reshape(stack, [stack.shape[0], *slice_shape]), value)
        lowering.set_tensor_lowering(y, value)
        return
    if len(changes) < 2 and all(
        before is None or after is None or x.shape.cumprod_to_tensor_axis(after) is not None
        for before, after in changes.values()
    ):
        op.lower(lowering)
        return
    old, new = mesh.split_axes(x.shape), mesh.split_axes(y.shape)
    value = mesh.gather(
        lowering.tensors[x].to_laid_out_tensor(), {axis: old.index(axis) for axis in changes if axis in old}
    )
    slice_shape = mesh.slice_shape(y.shape)
    for axis in changes:
        if axis in new:
            slice_shape[new.index(axis)] *= mesh.shape[axis].size
    value = mesh.slicewise(lambda t: tf.reshape(t, slice_shape), value)
    value = mesh.scatter(value, {axis: new.index(axis) for axis in changes if axis in new})
    lowering.set_tensor_lowering(y, value)


class Lowering(mtf.Lowering):
    """Lowers operations of a graph; unlike upstream's, an error says which one it is of, and stacks have one form.

    Args:
      graph: an `mtf.Graph`.
      operations: those of it that are `needed`.
      mesh_to_impl: {mesh: its implementation}.
      random_state: `RandomState` that the operations draw from.
    """

    def __init__(self, graph, operations, mesh_to_impl, random_state):
        self.graph = graph
        self.mesh_to_impl = mesh_to_impl
        self.random_state = random_state
        self._counters = []
        self.tensors, self.operations, self.variables = {}, {}, {}
        for op in operations:
            try:
                with tf.name_scope(op.name):
                    if isinstance(op, mtf.ReshapeOperation):
                        lower_reshape(op, self)
                    else:
                        op.lower(self)
            except MtfImagingError:
                raise
            except (ValueError, NotImplementedError) as error:
                shapes = ", ".join(str(t.shape) for t in op.inputs + op.outputs)
                rules = next(iter(mesh_to_impl.values())).layout_rules
                raise LayoutError(f"{_title(op)} ({shapes}) cannot be lowered under {rules}: {error}") from error

    def set_tensor_lowering(self, tensor, laid_out_tensor):
        """Sets what a tensor is lowered to, with stacks of one exactly where the layout splits none of its dimensions.

        Operations on tensors of one shape then meet stacks of one size, which mesh_tensorflow's generic gradient relies
        on.
        """
        mesh_impl = self.mesh_impl(tensor)

        def canonical(x):
            return mesh_impl.canonical(x, tensor.shape)

        if isinstance(laid_out_tensor, LaidOutTensor):
            laid_out_tensor = canonical(laid_out_tensor)
        elif isinstance(laid_out_tensor, mtf.LazyAllreduceSum):
            laid_out_tensor = CanonicalSum(laid_out_tensor, canonical)
        super().set_tensor_lowering(tensor, laid_out_tensor)
