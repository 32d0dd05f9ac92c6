"""Laid-out tensors: the slices of all processors in a mesh, as one stack per device."""

from collections.abc import Callable, Hashable, Iterable
from typing import Self

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.local import partial_dtype


class LaidOutTensor:
    """The shards of a tensor, each a stack `[n] + slice_shape` of the slices of n processors.

    A stack of one slice represents a value that all processors share, which is stored once. Whether a tensor is stored
    once depends only on its layout (see `Lowering.set_tensor_lowering`), so all tensors of one shape have stacks of the
    same size.

    Attributes:
      tensor_list: the stacks, one per shard. mesh_tensorflow's generic gradients and Depend use this list.
      widened: {window: this tensor with slices widened by the halo of the window}, shared by the forward and the
        backward pass.
      filled: {value: this tensor with the value in its tails}.
      masked: whether the tails of uneven slices are 0 (see `tails`). Otherwise they are undefined.
    """

    def __init__(self, tensor_list: Iterable[tf.Tensor]) -> None:
        self.tensor_list = list(tensor_list)
        self.widened: dict[Hashable, LaidOutTensor] = {}
        self.filled: dict[float, LaidOutTensor] = {}
        self.masked = False

    @classmethod
    def from_tensor_list(cls, tensor_list: Iterable[tf.Tensor]) -> Self:
        """Creates a laid-out tensor; mesh_tensorflow's generic gradient calls this constructor."""
        return cls(tensor_list)

    @property
    def stack_size(self) -> int:
        """The number of slices in each stack."""
        return self.tensor_list[0].shape[0]

    @property
    def slice_shape(self) -> list[int]:
        return self.tensor_list[0].shape.as_list()[1:]

    @property
    def dtype(self) -> tf.DType:
        return self.tensor_list[0].dtype

    def to_laid_out_tensor(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"LaidOutTensor({self.tensor_list})"


# The lowered form of an `mtf.Tensor`.
Lowered = LaidOutTensor | mtf.LazyAllreduceSum


class CanonicalSum(mtf.LazyAllreduceSum):
    """A deferred sum over processors, whose result is converted to the stack size that its layout requires.

    The partial sums have their `partial_dtype`, so that those of two operations can be added.
    """

    def __init__(self, lazy: mtf.LazyAllreduceSum, canonical: Callable[[LaidOutTensor], LaidOutTensor]) -> None:
        mesh, partial = lazy.mesh_impl, lazy.laid_out_input
        partial = mesh.cast(partial, partial_dtype(partial.dtype))
        super().__init__(mesh, partial, lazy.mesh_axes, lazy.add_counter_fn)
        self._canonical = canonical
        self._result: LaidOutTensor | None = None

    def to_laid_out_tensor(self) -> LaidOutTensor:
        if self._result is None:
            self._result = self._canonical(super().to_laid_out_tensor())
        return self._result

    @property
    def tensor_list(self) -> list[tf.Tensor]:
        """The stacks of the result, for mesh_tensorflow's generic gradient."""
        return self.to_laid_out_tensor().tensor_list
