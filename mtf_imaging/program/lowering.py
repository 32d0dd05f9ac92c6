"""From a graph over named tensors to TensorFlow: the layout is checked as a whole, then every operation is lowered."""

import tensorflow as tf

from mtf_imaging import upstream
from mtf_imaging.compat import mtf
from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.layout import format_layout, format_shape
from mtf_imaging.meshes.laid_out import CanonicalSum, LaidOutTensor
from mtf_imaging.upstream.faults import title


def _operations(graph):
    """Returns every operation of a graph in order, including the operations inside loops."""
    return [each for op in graph.operations for each in [*upstream.inner_operations(op), op]]


def tensors_of(graph):
    """Returns pairs (operation, output tensor) of a graph, in order."""
    return [(op, tensor) for op in _operations(graph) for tensor in op.outputs]


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
                    f"{title(op)}: cannot split '{dim.name}' (size {dim.size}) over '{rule}' (size {parts}): "
                    f"{dim.size} is not divisible by {parts}, nearest legal: {nearest}. "
                    f"Fix: pad '{dim.name}' to {above}, or drop '{dim.name}:{rule}'.",
                )
    return seen


def _clash_faults(graph, mesh_shape, layout):
    """Tensors of which the layout splits two dimensions over one mesh dimension."""
    faults = {}
    for op, tensor in tensors_of(graph):
        used = {}
        for dim in tensor.shape.dims:
            rule = layout.get(dim.name)
            if mesh_shape.get(rule, 1) == 1:
                continue
            if rule in used:
                first = used[rule]
                faults.setdefault(
                    (first.name, dim.name),
                    f"{title(op)}: cannot split both '{first.name}' (size {first.size}) and '{dim.name}' "
                    f"(size {dim.size}) over '{rule}'. Fix: drop '{first.name}:{rule}' or '{dim.name}:{rule}', "
                    "or give one of them another mesh dimension.",
                )
            used[rule] = dim
    return list(faults.values())


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
    op_faults, explained, ways_out, settings = {}, set(), {}, {}
    for op in _operations(graph):
        own = (
            op.layout_faults(sizes, rules) if hasattr(op, "layout_faults") else upstream.layout_faults(op, sizes, rules)
        )
        for fault in own:
            explained |= fault.explains
            op_faults.setdefault(fault.key, fault.text)
            ways_out[fault.way_out] = None
            settings |= dict.fromkeys(fault.settings)
    plain = [text for key, (op, text) in size_faults.items() if key not in explained or not op.inputs]
    faults = plain + list(op_faults.values()) + _clash_faults(graph, sizes, rules)
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
        head = f"layout '{format_layout(layout)}' on mesh '{format_shape(mesh_shape)}' has {count}:"
        raise LayoutError("\n  ".join([head, *faults, *filter(None, ways_out)]), settings)


class Lowering(mtf.Lowering):
    """Lowers operations of a graph; unlike upstream's, an error says which one it is of, and stacks have one form.

    Args:
      graph: an `mtf.Graph`.
      operations: the operations to lower.
      mesh_to_impl: {mesh: its implementation}.
      random_state: `RandomState` that the operations draw from.

    Attributes:
      local_calls: {slicewise operation: `LocalCall`}, from which gradients are computed.
    """

    def __init__(self, graph, operations, mesh_to_impl, random_state):
        self.graph = graph
        self.mesh_to_impl = mesh_to_impl
        self.random_state = random_state
        self._counters = []
        self.tensors, self.operations, self.variables, self.local_calls = {}, {}, {}, {}
        for op in operations:
            self.lower(op)

    def lower(self, op):
        """Lowers an operation.

        Raises:
          LayoutError: the operation cannot be lowered under the layout.
        """
        try:
            with tf.name_scope(op.name):
                upstream.LOWERINGS.get(type(op), type(op).lower)(op, self)
        except MtfImagingError:
            raise
        except (ValueError, NotImplementedError) as error:
            shapes = ", ".join(str(t.shape) for t in op.inputs + op.outputs)
            rules = self.mesh_impl(op).layout_rules
            raise LayoutError(f"{title(op)} ({shapes}) cannot be lowered under {rules}: {error}") from error

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
