"""A laid-out tensor: the slices of all processors of a mesh, as one stack a device."""

from collections.abc import Callable, Hashable, Iterable
from typing import Self

import tensorflow as tf

from mtf_imaging.compat import mtf


class LaidOutTensor:
    """One tensor a shard, each `[n] + slice_shape` with the slices of the shard's n processors stacked.

    A stack of one stands for a value that all processors share (it is held once). Whether a tensor is held once follows
    from its layout alone (see `Lowering.set_tensor_lowering`), so every tensor of one shape has stacks of one size.

    Attributes:
      tensor_list: the stacks, one a shard. Upstream's generic gradients, Depend and Assign work on it as it is.
      widened: slices of this tensor with the halo of a window, by window: the forward and the backward pass share them.
    """

    def __init__(self, tensor_list: Iterable[tf.Tensor]) -> None:
        self.tensor_list = list(tensor_list)
        self.widened: dict[Hashable, LaidOutTensor] = {}

    @classmethod
    def from_tensor_list(cls, tensor_list: Iterable[tf.Tensor]) -> Self:
        """The name under which mesh_tensorflow's generic gradient makes one."""
        return cls(tensor_list)

    @property
    def all_slices(self) -> list[tf.Tensor]:
        return self.tensor_list

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


# What a tensor is lowered to.
Lowered = LaidOutTensor | mtf.LazyAllreduceSum


class CanonicalSum(mtf.LazyAllreduceSum):
    """A sum over processors that is yet to be done; its result is brought to the stacks that its layout asks for."""

    def __init__(self, lazy: mtf.LazyAllreduceSum, canonical: Callable[[LaidOutTensor], LaidOutTensor]) -> None:
        super().__init__(lazy.mesh_impl, lazy.laid_out_input, lazy.mesh_axes, lazy.add_counter_fn)
        self._canonical = canonical
        self._result: LaidOutTensor | None = None

    def to_laid_out_tensor(self) -> LaidOutTensor:
        if self._result is None:
            self._result = self._canonical(super().to_laid_out_tensor())
        return self._result

    @property
    def tensor_list(self) -> list[tf.Tensor]:
        """For mesh_tensorflow's generic gradient, which takes stacks only."""
        return self.to_laid_out_tensor().tensor_list
