"""Lowers `concat`, `cumsum`, `slice`, `pad`, `split`, `stack`, `unstack` and `shift` along a split dimension.

mesh_tensorflow refuses this split; `shift` needs equal slices. This module gathers the slices along the
dimension, lowers the operation under a layout without the rule, and splits the result again.
"""

import math

from mtf_imaging.engine.compat import mtf, shift_arguments
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.upstream.selections import Cumsum

# Each operation except shift declares only this dimension as unsplittable.
OPERATIONS = {
    mtf.ConcatOperation,
    mtf.PadOperation,
    mtf.ShiftOperation,
    mtf.SliceOperation,
    mtf.SplitOperation,
    mtf.StackOperation,
    mtf.UnstackOperation,
    Cumsum,
}


def _gathered(op: mtf.Operation, mesh: ShardMeshImpl) -> set[str]:
    """Returns the names of the dimensions that an operation needs as a whole."""
    if isinstance(op, mtf.ShiftOperation):
        dim, _, _ = shift_arguments(op)
        return {dim.name} if tails.tails_of(mesh, mtf.Shape([dim])) else set()
    return set(op.unsplittable_dims)


def is_needed(op: mtf.Operation, mesh: ShardMeshImpl) -> bool:
    """Returns whether the layout splits a dimension that an operation needs as a whole."""
    return any(_split_along(op, tensor.shape, mesh) for tensor in op.inputs + op.outputs)


def _split_along(op: mtf.Operation, shape: mtf.Shape, mesh: ShardMeshImpl) -> dict[int, int]:
    """Returns the splits of a shape that an operation does not support: {mesh axis: dimension}."""
    axes, names = enumerate(zip(mesh.split_axes(shape), shape.dims, strict=True)), _gathered(op, mesh)
    return {axis: i for i, (axis, dim) in axes if axis is not None and dim.name in names}


class _WholeLowering:
    """A substitute for a `Lowering` that gathers the inputs of one operation and splits its outputs.

    Args:
      lowering: the `Lowering`.
      op: the operation.
    """

    def __init__(self, lowering: mtf.Lowering, op: mtf.Operation) -> None:
        self._lowering, self._op = lowering, op
        self._mesh = lowering.mesh_impl(op)
        self._without = self._mesh.without(_gathered(op, self._mesh))
        self.tensors = self

    def mesh_impl(self, m: object) -> ShardMeshImpl:
        del m
        return self._without

    def __getitem__(self, tensor: mtf.Tensor) -> LaidOutTensor:
        value = self._lowering.tensors[tensor].to_laid_out_tensor()
        sizes = dict(enumerate(tensor.shape.to_integer_list))
        value = tails.gather(self._mesh, value, _split_along(self._op, tensor.shape, self._mesh), sizes)
        return self._without.canonical(value, tensor.shape)

    def set_tensor_lowering(self, tensor: mtf.Tensor, value: Lowered) -> None:
        value = self._without.canonical(value.to_laid_out_tensor(), tensor.shape)
        value = tails.scatter(self._mesh, value, _split_along(self._op, tensor.shape, self._mesh))
        self._lowering.set_tensor_lowering(tensor, value)


def lower(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers one of `OPERATIONS`."""
    type(op).lower(op, _WholeLowering(lowering, op) if is_needed(op, lowering.mesh_impl(op)) else lowering)


def gathers(op: mtf.Operation, mesh: ShardMeshImpl) -> list[tuple[mtf.Tensor, tuple[int, ...]]]:
    """Returns the inputs that `lower` gathers, and the mesh axes along which it does."""
    found = [(x, tuple(sorted(_split_along(op, x.shape, mesh)))) for x in op.inputs]
    return [(x, axes) for x, axes in found if axes]


def exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of `lower`, one `Round` for each input that is split along the dimension."""
    nbytes = {x: math.prod(mesh.slice_shape(x.shape)) * x.dtype.size for x in op.inputs}
    return [Round([Exchange("gather", axes, nbytes[x])]) for x, axes in gathers(op, mesh)]
