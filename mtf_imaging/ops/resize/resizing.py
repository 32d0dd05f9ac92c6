"""Linear and nearest resizing of 2 or 3 spatial dimensions by any ratio. Any dimension may be split."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.layout.windows import Window, nearest_legal_sizes
from mtf_imaging.meshes import halo
from mtf_imaging.meshes.exchange import Round
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.ops.faults import LayoutFault
from mtf_imaging.ops.precision import master_dtype
from mtf_imaging.ops.resize.interpolation import METHODS, SlicePlan, Taps, plan_slices
from mtf_imaging.ops.window_op import Ints, first_axis, per_dimension

_VOXEL = Window(1)  # as many windows as voxels, for any size


@dataclasses.dataclass(frozen=True)
class Resized:
    """A dimension that changes its size.

    Attributes:
      dim: position of the dimension in the tensor.
      name: name of the dimension.
      size: number of voxels in the input.
      outputs: number of voxels in the result.
    """

    dim: int
    name: str
    size: int
    outputs: int


class _ResizeOperation(mtf.Operation):
    """Base class of a resize and its adjoint: `x[..., sizes..., channels]`, `y[..., outputs..., channels]`.

    One copy widens a slice in all dimensions. The dimensions are then resized one at a time, and the ones that shrink
    the most come first.
    """

    def __init__(self, kind: str, x: mtf.Tensor, resized: Sequence[Resized], method: str, name: str) -> None:
        super().__init__([x], name=name)
        self.kind = kind
        self._method = method
        # The last dimensions are the slowest to gather, so they are resized while the tensor is smallest.
        self._resized = sorted(resized, key=lambda r: (r.outputs / r.size, r.dim if r.outputs < r.size else -r.dim))

    def _shape(self, sizes: Sequence[int]) -> mtf.Shape:
        dims = list(self.inputs[0].shape.dims)
        for r, size in zip(self._resized, sizes):
            dims[r.dim] = mtf.Dimension(r.name, size)
        return mtf.Shape(dims)

    def _plans(self, mesh: ShardMeshImpl) -> Iterator[tuple[Resized, int | None, SlicePlan]]:
        """Yields each resized dimension with the mesh axis that splits it, or None, and its `SlicePlan`."""
        for r in self._resized:
            axis = first_axis(mesh, mtf.Dimension(r.name, r.size))
            parts = 1 if axis is None else mesh.shape[axis].size
            yield r, axis, plan_slices(r.size, r.outputs, parts, self._method)

    def _margins(self, mesh: ShardMeshImpl) -> list[halo.Margin]:
        return [
            halo.Margin(r.dim, r.size // mesh.shape[axis].size, plan.before, plan.after, axis)
            for r, axis, plan in self._plans(mesh)
            if axis is not None
        ]

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        """Returns a fault for each split that does not divide both sizes of a dimension."""
        splits = [(r, rules.get(r.name, "")) for r in self._resized]
        faults = [self._layout_fault(r, rule, mesh_sizes.get(rule, 1)) for r, rule in splits]
        return [fault for fault in faults if fault]

    def _layout_fault(self, r: Resized, rule: str, parts: int) -> LayoutFault | None:
        why, fixes = [], []
        for which, size, fix in (("input", r.size, f"pad '{r.name}' to"), ("output", r.outputs, "resize it to")):
            if size % parts:
                below, above = nearest_legal_sizes(_VOXEL, size, parts)
                nearest = f"{below} and {above}" if below else f"{above}"
                why.append(f"its {which} size {size} is not divisible by {parts}, nearest legal: {nearest}")
                fixes.append(f"{fix} {above}")
        if not why:
            return None
        text = (
            f"{self.kind} '{self.name}': cannot split '{r.name}' (size {r.size}, resized to {r.outputs}) over '{rule}' "
            f"(size {parts}): {', and '.join(why)}. Fix: {' and '.join(fixes)}, or drop '{r.name}:{rule}'."
        )
        return LayoutFault(text, frozenset({(r.name, r.size), (r.name, r.outputs)}), (r, rule))


class Resize(_ResizeOperation):
    """`y = resize(x)`: linear in `x`."""

    def __init__(
        self, kind: str, x: mtf.Tensor, resized: Sequence[Resized], method: str, name: str | None = None
    ) -> None:
        super().__init__(kind, x, resized, method, name or kind)
        self._outputs = [mtf.Tensor(self, self._shape([r.outputs for r in self._resized]), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return ResizeGrad(self.kind, grad_ys[0], self._resized, self._method).outputs

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, x = lowering.mesh_impl(self), self.inputs[0]
        y = halo.widen(mesh, lowering.tensors[x].to_laid_out_tensor(), self._margins(mesh))
        for r, axis, plan in self._plans(mesh):
            y = _sum_taps(mesh, y, r.dim, axis, plan.forward)
        lowering.set_tensor_lowering(self.outputs[0], mesh.map_stacks(lambda y: tf.cast(y, x.dtype), y))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        x = self.inputs[0]
        return [Round(halo.exchanges(mesh, self._margins(mesh), mesh.slice_shape(x.shape), x.dtype.size))]


class ResizeGrad(_ResizeOperation):
    """The adjoint of `Resize`."""

    def __init__(self, kind: str, dy: mtf.Tensor, resized: Sequence[Resized], method: str) -> None:
        super().__init__(kind, dy, resized, method, f"{kind}_dx")
        self._outputs = [mtf.Tensor(self, self._shape([r.size for r in self._resized]), dy.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return Resize(self.kind, grad_ys[0], self._resized, self._method).outputs

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, dy = lowering.mesh_impl(self), self.inputs[0]
        dx = lowering.tensors[dy].to_laid_out_tensor()
        for r, axis, plan in reversed(list(self._plans(mesh))):
            dx = _sum_taps(mesh, dx, r.dim, axis, plan.backward)
        dx = halo.narrow(mesh, dx, self._margins(mesh))
        lowering.set_tensor_lowering(self.outputs[0], mesh.map_stacks(lambda dx: tf.cast(dx, dy.dtype), dx))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        dx = self.outputs[0]
        dtype = dx.dtype if self._method == "nearest" else master_dtype(dx.dtype)
        return [Round(halo.exchanges(mesh, self._margins(mesh), mesh.slice_shape(dx.shape), dtype.size, adjoint=True))]


def _sum_taps(mesh: ShardMeshImpl, x: LaidOutTensor, dim: int, axis: int | None, taps: Taps) -> LaidOutTensor:
    """Applies the taps of each processor along dimension `dim`, which mesh axis `axis` (or None) splits.

    If an output is a sum, the result has the dtype that `master_dtype` returns. Copies keep the dtype.
    """

    def per_processor(values: np.ndarray) -> LaidOutTensor:
        constant = mesh.laid_out_constant(lambda at: values[0 if axis is None else at[axis]])
        return mesh.canonical_like(constant, x)

    def local(stack: tf.Tensor, positions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        before, after = stack.shape[: dim + 1], stack.shape[dim + 2 :]
        lines = tf.reshape(stack, [before[0], math.prod(before[1:]), stack.shape[dim + 1], math.prod(after)])
        values = [tf.gather(lines, positions[:, tap], axis=2, batch_dims=1) for tap in range(positions.shape[1])]
        if not taps.copies:
            dtype = master_dtype(stack.dtype)
            weights = tf.cast(weights, dtype)[:, :, tf.newaxis, :, tf.newaxis]
            values = [tf.cast(value, dtype) * weights[:, tap] for tap, value in enumerate(values)]
        total = values[0] if len(values) == 1 else tf.add_n(values)
        return tf.reshape(total, [*before, positions.shape[2], *after])

    return mesh.map_stacks(local, x, per_processor(taps.positions), per_processor(taps.weights))


def _resize(num_spatial: int, x: mtf.Tensor, sizes: Ints, method: str, name: str | None) -> mtf.Tensor:
    kind = f"resize{num_spatial}d"
    title = f"{kind} '{name or kind}'"
    dims = x.shape.dims
    if len(dims) < num_spatial + 2:
        raise ShapeError(
            f"{title} needs at least {num_spatial + 2} dimensions (batch, {num_spatial} spatial dimensions, channels), "
            f"but its input has {len(dims)}: {x.shape}"
        )
    if method not in METHODS:
        raise ShapeError(f"{title}: method must be 'linear' or 'nearest', not {method!r}")
    if method == "linear" and not x.dtype.is_floating:
        raise ShapeError(
            f"{title}: method 'linear' needs a floating-point input, but the input is {x.dtype.name}. "
            "Fix: use method='nearest', or cast the input."
        )
    sizes = per_dimension(title, "sizes", sizes, num_spatial)
    if min(sizes) < 1:
        raise ShapeError(f"{title}: sizes must be at least 1, not {sizes}")
    first = len(dims) - 1 - num_spatial
    resized = [
        Resized(i, dim.name, dim.size, size)
        for i, (dim, size) in enumerate(zip(dims[first:-1], sizes), first)
        if dim.size != size
    ]
    return Resize(kind, x, resized, method, name).outputs[0] if resized else x


def resize2d(x: mtf.Tensor, sizes: Ints, method: str = "linear", name: str | None = None) -> mtf.Tensor:
    """Resizes 2 spatial dimensions, like `tf.image.resize(x, sizes, antialias=False)` on the whole tensor.

    `resize3d` gives the formula and the dimensions that may be split.

    Args:
      x: Tensor[batch..., x, y, channels]
      sizes: voxels of x' and y': an int, or one for each spatial dimension.
      method: "linear" or "nearest".
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', channels] of the same dtype. Dimensions keep their names.

    Raises:
      ShapeError: the shape or the dtype of the input does not fit the sizes or the method.
    """
    return _resize(2, x, sizes, method, name)


def resize3d(x: mtf.Tensor, sizes: Ints, method: str = "linear", name: str | None = None) -> mtf.Tensor:
    """Resizes 3 spatial dimensions, like `tf.image.resize(..., antialias=False)` resizes 2.

    `y[batch..., x', y', z', channels] = sum over x, y, z of wx[x', x] wy[y', y] wz[z', z] x[batch..., x, y, z,
    channels]`

    Voxels are cells with their centers at halves, so the borders of the volume do not move. The method "linear" weights
    the two voxels around each new center, and needs a floating-point dtype. The method "nearest" copies the voxel that
    contains the center, and takes any dtype.

    Every dimension may be split. A spatial dimension with n voxels in the input and o voxels in the output may be split
    over N processors if N divides both n and o. A slice then needs at most one voxel of each neighbor.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      sizes: voxels of x', y' and z': an int, or one for each spatial dimension.
      method: "linear" or "nearest".
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', z', channels] of the same dtype. Dimensions keep their names.

    Raises:
      ShapeError: the shape or the dtype of the input does not fit the sizes or the method.
    """
    return _resize(3, x, sizes, method, name)
