"""Resampling and its adjoint: each dimension is multiplied by a sparse matrix, and may be split."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import halo
from mtf_imaging.engine.meshes.exchange import Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.portable import multiply_no_nan
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.engine.ops.resize.taps import Resampling, SlicePlan, Taps, plan_slices
from mtf_imaging.engine.ops.window_op import first_axis


class Resampled(NamedTuple):
    """A dimension that is resampled.

    Attributes:
      dim: position of the dimension in the tensor.
      name: name of the dimension.
      line: the `Resampling` of the dimension.
    """

    dim: int
    name: str
    line: Resampling


def _order(r: Resampled) -> tuple[float, int]:
    """Sorts by ratio. The last dimensions are the slowest to gather, so they come last, when the tensor is smallest."""
    return r.line.outputs / r.line.size, r.dim if r.line.outputs < r.line.size else -r.dim


class _ResampleOperation(mtf.Operation):
    """Base class of a resampling and its adjoint: `x[..., sizes..., channels]`, `y[..., outputs..., channels]`.

    One copy widens a slice in all dimensions. The dimensions are then resampled one at a time, starting with the one
    that shrinks the most.
    """

    def __init__(self, kind: str, x: mtf.Tensor, resampled: Sequence[Resampled], name: str) -> None:
        super().__init__([x], name=name)
        self.kind = kind
        self._resampled = sorted(resampled, key=_order)

    def _shape(self, sizes: Sequence[int]) -> mtf.Shape:
        dims = list(self.inputs[0].shape.dims)
        for r, size in zip(self._resampled, sizes):
            dims[r.dim] = mtf.Dimension(r.name, size)
        return mtf.Shape(dims)

    def _plans(self, mesh: ShardMeshImpl) -> Iterator[tuple[Resampled, int | None, SlicePlan]]:
        """Yields each resampled dimension with the mesh axis that splits it, or None, and its `SlicePlan`."""
        for r in self._resampled:
            axis = first_axis(mesh, mtf.Dimension(r.name, r.line.size))
            parts = 1 if axis is None else mesh.shape[axis].size
            yield r, axis, plan_slices(r.line, parts)

    def _margins(self, mesh: ShardMeshImpl) -> list[halo.Margin]:
        """Returns the margins of the split dimensions, in the order of the dimensions.

        Slices that share a device exchange their first dimensions first (see `gathering`), so other processors should
        do the same.
        """
        margins = [
            halo.Margin(r.dim, -(-r.line.size // mesh.shape[axis].size), plan.before, plan.after, axis)
            for r, axis, plan in self._plans(mesh)
            if axis is not None
        ]
        return sorted(margins, key=lambda m: m.dim)


class Resample(_ResampleOperation):
    """`y = resample(x)`: linear in `x`."""

    def __init__(self, kind: str, x: mtf.Tensor, resampled: Sequence[Resampled], name: str | None = None) -> None:
        super().__init__(kind, x, resampled, name or kind)
        self._outputs = [mtf.Tensor(self, self._shape([r.line.outputs for r in self._resampled]), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return ResampleGrad(self.kind, grad_ys[0], self._resampled).outputs

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, x = lowering.mesh_impl(self), self.inputs[0]
        y = halo.widen(mesh, lowering.tensors[x].to_laid_out_tensor(), self._margins(mesh))
        for r, axis, plan in self._plans(mesh):
            y = _sum_taps(mesh, y, r.dim, axis, plan.forward)
        lowering.set_tensor_lowering(self.outputs[0], mesh.map_stacks(lambda y: tf.cast(y, x.dtype), y))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        x = self.inputs[0]
        return [Round(halo.exchanges(mesh, self._margins(mesh), mesh.slice_shape(x.shape), x.dtype.size))]


class ResampleGrad(_ResampleOperation):
    """The adjoint of `Resample`."""

    def __init__(self, kind: str, dy: mtf.Tensor, resampled: Sequence[Resampled]) -> None:
        super().__init__(kind, dy, resampled, f"{kind}_dx")
        self._outputs = [mtf.Tensor(self, self._shape([r.line.size for r in self._resampled]), dy.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return Resample(self.kind, grad_ys[0], self._resampled).outputs

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, dy = lowering.mesh_impl(self), self.inputs[0]
        dx = lowering.tensors[dy].to_laid_out_tensor()
        for r, axis, plan in reversed(list(self._plans(mesh))):
            dx = _sum_taps(mesh, dx, r.dim, axis, plan.backward)
        dx = halo.narrow(mesh, dx, self._margins(mesh))
        lowering.set_tensor_lowering(self.outputs[0], mesh.map_stacks(lambda dx: tf.cast(dx, dy.dtype), dx))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        dx = self.outputs[0]
        copies = all(plan.backward.selects for _, _, plan in self._plans(mesh))
        dtype = dx.dtype if copies else master_dtype(dx.dtype)
        return [Round(halo.exchanges(mesh, self._margins(mesh), mesh.slice_shape(dx.shape), dtype.size, adjoint=True))]


def _sum_taps(mesh: ShardMeshImpl, x: LaidOutTensor, dim: int, axis: int | None, taps: Taps) -> LaidOutTensor:
    """Applies the taps of each processor along dimension `dim`, which mesh axis `axis` (or None) splits.

    If an output is a sum, the result has the dtype that `master_dtype` returns. Copies and zeros keep the dtype.
    """

    def per_processor(values: np.ndarray) -> LaidOutTensor:
        constant = mesh.laid_out_constant(lambda at: values[0 if axis is None else at[axis]])
        return mesh.canonical_like(constant, x)

    def local(stack: tf.Tensor, positions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        before, after = stack.shape[: dim + 1], stack.shape[dim + 2 :]
        lines = tf.reshape(stack, [before[0], math.prod(before[1:]), stack.shape[dim + 1], math.prod(after)])
        values = [tf.gather(lines, positions[:, tap], axis=2, batch_dims=1) for tap in range(positions.shape[1])]
        if taps.selects and not taps.copies:
            values = [tf.where(tf.cast(weights, tf.bool)[..., tf.newaxis], values[0], tf.zeros([], stack.dtype))]
        elif not taps.selects:
            dtype = master_dtype(stack.dtype)
            weights = tf.cast(weights, dtype)[:, :, tf.newaxis, :, tf.newaxis]
            # Unused taps have a weight of 0, which hides NaN.
            values = [multiply_no_nan(tf.cast(v, dtype), weights[:, tap]) for tap, v in enumerate(values)]
        total = values[0] if len(values) == 1 else tf.add_n(values)
        return tf.reshape(total, [*before, positions.shape[2], *after])

    return mesh.map_stacks(local, x, per_processor(taps.positions), per_processor(taps.weights))


def resample(kind: str, x: mtf.Tensor, lines: Sequence[Resampling], name: str | None) -> mtf.Tensor:
    """Resamples the spatial dimensions of `x[batch..., spatial..., channels]`; `lines` has one entry for each."""
    first = len(x.shape.dims) - 1 - len(lines)
    resampled = [
        Resampled(i, x.shape.dims[i].name, line) for i, line in enumerate(lines, first) if line.outputs != line.size
    ]
    return Resample(kind, x, resampled, name).outputs[0] if resampled else x
