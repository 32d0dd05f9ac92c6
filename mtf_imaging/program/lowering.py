"""Lowers a graph over named tensors to TensorFlow, operation by operation."""

import tensorflow as tf

from mtf_imaging import upstream
from mtf_imaging.compat import mtf
from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.meshes.laid_out import CanonicalSum, LaidOutTensor
from mtf_imaging.upstream.faults import title


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
