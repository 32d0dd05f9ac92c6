"""Lowers `concat`, `slice`, `pad`, `split`, `stack`, `unstack` and `top_k` along a split dimension.

mesh_tensorflow refuses this split. This module gathers the slices along the dimension, lowers the operation under a
layout without the rule, and splits the result again.
"""

import math

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.exchange import Exchange, Round
from mtf_imaging.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

# Each operation declares only this dimension as unsplittable. top_k declares the new dimension of its results.
OPERATIONS = {
    mtf.ConcatOperation,
    mtf.PadOperation,
    mtf.SliceOperation,
    mtf.SplitOperation,
    mtf.StackOperation,
    mtf.TopKOperation,
    mtf.UnstackOperation,
}


def _split_along(op: mtf.Operation, shape: mtf.Shape, mesh: ShardMeshImpl) -> dict[int, int]:
    """Returns the splits of a shape that an operation does not support: {mesh axis: dimension}."""
    axes = enumerate(zip(mesh.split_axes(shape), shape.dims, strict=True))
    return {axis: i for i, (axis, dim) in axes if axis is not None and dim.name in op.unsplittable_dims}


class _WholeLowering:
    """A substitute for a `Lowering` that gathers the inputs of one operation and splits its outputs.

    Args:
      lowering: the `Lowering`.
      op: the operation.
    """

    def __init__(self, lowering: mtf.Lowering, op: mtf.Operation) -> None:
        self._lowering, self._op = lowering, op
        self._mesh = lowering.mesh_impl(op)
        self._without = self._mesh.without(op.unsplittable_dims)
        self.tensors = self

    def mesh_impl(self, m: object) -> ShardMeshImpl:
        del m
        return self._without

    def __getitem__(self, tensor: mtf.Tensor) -> LaidOutTensor:
        value = self._lowering.tensors[tensor].to_laid_out_tensor()
        value = self._mesh.gather(value, _split_along(self._op, tensor.shape, self._mesh))
        return self._without.canonical(value, tensor.shape)

    def set_tensor_lowering(self, tensor: mtf.Tensor, value: Lowered) -> None:
        value = self._without.canonical(value.to_laid_out_tensor(), tensor.shape)
        value = self._mesh.scatter(value, _split_along(self._op, tensor.shape, self._mesh))
        self._lowering.set_tensor_lowering(tensor, value)


def lower(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers one of `OPERATIONS`."""
    mesh = lowering.mesh_impl(op)
    split = any(_split_along(op, tensor.shape, mesh) for tensor in op.inputs + op.outputs)
    type(op).lower(op, _WholeLowering(lowering, op) if split else lowering)


def exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of `lower`, one `Round` for each input that is split along the dimension."""
    rounds = []
    for x in op.inputs:
        axes = tuple(sorted(_split_along(op, x.shape, mesh)))
        if axes:
            rounds.append(Round([Exchange("gather", axes, math.prod(mesh.slice_shape(x.shape)) * x.dtype.size)]))
    return rounds
