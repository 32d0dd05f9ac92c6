"""Lowers a graph over named tensors to TensorFlow operations."""

from collections.abc import Collection, Iterable, Mapping

import tensorflow as tf

from mtf_imaging.engine import compat, upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.laid_out import CanonicalSum, LaidOutTensor, Lowered
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.random.state import RandomState
from mtf_imaging.engine.meshes.variables import LaidOutVariable
from mtf_imaging.engine.reads import inner_operations, place_in_loop, reads
from mtf_imaging.engine.upstream.faults import title
from mtf_imaging.engine.upstream.slicewise import LocalCall
from mtf_imaging.errors import LayoutError, MtfImagingError, NotSupportedError


class Lowering(mtf.Lowering):
    """Lowers operations of a graph.

    Unlike in `mtf.Lowering`, errors name the operation, and all tensors of one shape have stacks of the same size.

    Args:
      graph: an `mtf.Graph`.
      operations: the operations to lower.
      mesh_to_impl: {mesh: its implementation}.
      random_state: the `RandomState` from which operations draw random numbers.

    Attributes:
      local_calls: {slicewise operation: `LocalCall`}, which gradients of these operations need.
      differentiated: the operations whose generic gradients are lowered, too.
    """

    def __init__(
        self,
        graph: mtf.Graph,
        operations: Iterable[mtf.Operation],
        mesh_to_impl: Mapping[mtf.Mesh, ShardMeshImpl],
        random_state: RandomState,
    ) -> None:
        self.graph = graph
        self.mesh_to_impl = mesh_to_impl
        self.random_state = random_state
        self._counters: list[tuple] = []
        self.tensors: dict[mtf.Tensor, Lowered] = {}
        self.operations: dict[mtf.Operation, tf.Operation] = {}
        self.variables: dict[mtf.Variable, LaidOutVariable] = {}
        self.local_calls: dict[mtf.Operation, LocalCall] = {}
        operations = list(operations)
        every = [each for op in operations for each in [*inner_operations(op), op]]
        self.differentiated = {compat.forward_operation(op) for op in every if isinstance(op, mtf.GenericGradOperation)}
        for op in operations:
            self.lower(op)

    def lower(self, op: mtf.Operation) -> None:
        """Lowers an operation.

        Args:
          op: the operation.

        Raises:
          LayoutError: the operation cannot be lowered under the layout.
          NotSupportedError: the operation reads a tensor of a loop from outside the loop.
        """
        for tensor in reads(op):
            self.lowered(tensor, op)
        try:
            with tf.name_scope(op.name):
                upstream.LOWERINGS.get(type(op), type(op).lower)(op, self)
        except MtfImagingError:
            raise
        except (ValueError, NotImplementedError) as error:
            shapes = ", ".join(str(t.shape) for t in op.inputs + op.outputs)
            rules = self.mesh_impl(op).layout_rules
            raise LayoutError(f"{title(op)} ({shapes}) cannot be lowered under {rules}: {error}") from error

    def lowered(self, tensor: mtf.Tensor, reader: mtf.Operation | None = None) -> Lowered:
        """Returns the lowered form of a tensor.

        Args:
          tensor: the tensor.
          reader: the operation that reads it; None for an output of the program.

        Raises:
          NotSupportedError: the tensor belongs to a loop, and the reader is not in the loop. A function can store such
            a tensor and use it after the loop, but it has a different value in every iteration.
        """
        if tensor not in self.tensors and (place := place_in_loop(self.graph, tensor)):
            used = f"'{reader.name}', which is not there, reads it" if reader else "the program returns it"
            raise NotSupportedError(
                f"'{tensor.operation.name}' ({tensor.shape}) is in {place}, but {used}. Fix: return it from the body "
                "of the loop and use the output of the loop, or compute it outside the loop."
            )
        return self.tensors[tensor]

    def export_to_tf_tensor(self, x: mtf.Tensor) -> tf.Tensor:
        """Returns an output of the program as a whole tensor, or as the box of this process."""
        return self.mesh_impl(x).export_to_tf_tensor(x, self.lowered(x))

    def set_tensor_lowering(self, tensor: mtf.Tensor, laid_out_tensor: Lowered) -> None:
        """Stores the lowered form of a tensor, with stacks of one if the layout splits no dimension of the tensor.

        Sums in float32 are rounded to the dtype of the tensor.

        Tensors of one shape then have stacks of the same size, which mesh_tensorflow's generic gradient requires.

        Args:
          tensor: the tensor.
          laid_out_tensor: its slices, or a deferred sum.
        """
        mesh_impl = self.mesh_impl(tensor)

        def canonical(x: LaidOutTensor) -> LaidOutTensor:
            return mesh_impl.canonical(mesh_impl.cast(x, tensor.dtype), tensor.shape)

        if isinstance(laid_out_tensor, LaidOutTensor):
            laid_out_tensor = canonical(laid_out_tensor)
        elif self.is_gradient(tensor):
            laid_out_tensor = canonical(mesh_impl.sum_gradient(laid_out_tensor))
        elif isinstance(laid_out_tensor, mtf.LazyAllreduceSum):
            laid_out_tensor = CanonicalSum(laid_out_tensor, canonical)
        super().set_tensor_lowering(tensor, laid_out_tensor)

    def is_gradient(self, tensor: mtf.Tensor) -> bool:
        """Returns whether a tensor is the gradient of a weight, which no operation reads before the update.

        A sum in 16 bits is read at once: it is rounded.
        """
        return tensor in tensor.mesh.gradients and tensor.dtype.size >= 4

    def masked(self, tensor: mtf.Tensor, names: Collection[str] | None = None, fill: float = 0) -> LaidOutTensor:
        """Returns the slices of a tensor with `fill` in their tails, for an operation that combines elements.

        Zeros replace the tails of the stored slices as well. Each tensor is therefore masked only once, and usually in
        place.

        Args:
          tensor: the tensor.
          names: names of the dimensions along which the operation combines elements. None stands for all dimensions.
          fill: a number that has no effect on the operation.
        """
        mesh, x = self.mesh_impl(tensor), self.tensors[tensor].to_laid_out_tensor()
        if not tails.tails_of(mesh, tensor.shape, names) or (x.masked and fill == 0):
            return x
        if fill in x.filled:
            return x.filled[fill]
        filled = tails.fill(mesh, x, tails.tails_of(mesh, tensor.shape), fill)
        if fill == 0:
            filled.masked, filled.widened, filled.filled = True, x.widened, x.filled
            self.tensors[tensor] = filled
        else:
            x.filled[fill] = filled
        return filled
