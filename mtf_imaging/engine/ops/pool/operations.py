"""The operations of max and average pools over 1, 2 or 3 spatial dimensions, any of which may be split."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.pool import local as local_pool
from mtf_imaging.engine.ops.window_op import Geometry, WindowOperation


class _PoolOperation(WindowOperation):
    """Base class of pools: `x[batch..., sizes..., channels]`, `y[batch..., outputs..., channels]`."""

    def _shape_like(self, tensor: mtf.Tensor, sizes: Sequence[int]) -> mtf.Shape:
        dims = tensor.shape.dims
        return mtf.Shape(dims[: self.geometry.batch_ndims] + self._spatial_dims(sizes) + dims[-1:])

    def _window(self) -> tuple[list[int], list[int]]:
        windows = self.geometry.windows
        return [w.kernel for w in windows], [w.stride for w in windows]

    def _call(
        self, lowering: mtf.Lowering, local: Callable[..., tf.Tensor], inputs: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        mesh = lowering.mesh_impl(self)
        return mesh.window(local, inputs, batch_ndims=self.geometry.batch_ndims)


class MaxPool(_PoolOperation):
    """`y = max pool(x)`, where voxels beyond the border are minus infinity."""

    def __init__(self, kind: str, x: mtf.Tensor, geometry: Geometry, name: str | None) -> None:
        super().__init__(kind, [x], geometry, name)
        self._outputs = [mtf.Tensor(self, self._shape_like(x, geometry.outputs), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [MaxPoolGrad(self.kind, self.inputs[0], grad_ys[0], self.geometry).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, x = lowering.mesh_impl(self), self.inputs[0]
        ksize, strides = self._window()
        wide = self.geometry.widened(mesh, lowering.masked(x, fill=tails.lowest(x.dtype)), tails.lowest(x.dtype))
        y = self._call(lowering, lambda x: local_pool.max_pool(x, ksize, strides), [wide])
        lowering.set_tensor_lowering(self.outputs[0], y)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return [self.geometry.widening(mesh, self.inputs[0], tails.lowest(self.inputs[0].dtype))]


class MaxPoolGrad(_PoolOperation):
    """The gradient `dx` of `MaxPool`: linear in `dy`, with a zero derivative with respect to `x`."""

    def __init__(self, kind: str, x: mtf.Tensor, dy: mtf.Tensor, geometry: Geometry) -> None:
        super().__init__(kind, [x, dy], geometry, f"{kind}_dx")
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [None, TakeLargest(self.kind, self.inputs[0], grad_ys[0], self.geometry).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, x = lowering.mesh_impl(self), self.inputs[0]
        ksize, strides = self._window()
        wide = self.geometry.widened(mesh, lowering.masked(x, fill=tails.lowest(x.dtype)), tails.lowest(x.dtype))
        dy = lowering.masked(self.inputs[1])
        dx = self._call(lowering, lambda x, dy: local_pool.max_pool_grad(x, dy, ksize, strides), [wide, dy])
        lowering.set_tensor_lowering(self.outputs[0], self.geometry.narrowed(mesh, dx))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        (x, _), (dx,) = self.inputs, self.outputs
        return [
            self.geometry.widening(mesh, x, tails.lowest(x.dtype)),
            self.geometry.narrowing(mesh, dx.shape, dx.dtype),
        ]


class TakeLargest(_PoolOperation):
    """The value at the first of the largest voxels of each window of `x`: the gradient of `MaxPoolGrad`."""

    def __init__(self, kind: str, x: mtf.Tensor, values: mtf.Tensor, geometry: Geometry) -> None:
        super().__init__(kind, [x, values], geometry, f"{kind}_ddy")
        self._outputs = [mtf.Tensor(self, self._shape_like(values, geometry.outputs), values.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [None, MaxPoolGrad(self.kind, self.inputs[0], grad_ys[0], self.geometry).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, (x, values) = lowering.mesh_impl(self), self.inputs
        ksize, strides = self._window()
        wide = self.geometry.widened(mesh, lowering.masked(x, fill=tails.lowest(x.dtype)), tails.lowest(x.dtype))
        wide_values = self.geometry.widened(mesh, lowering.masked(values))
        y = self._call(
            lowering, lambda x, values: local_pool.take_largest(x, values, ksize, strides), [wide, wide_values]
        )
        lowering.set_tensor_lowering(self.outputs[0], y)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        x, values = self.inputs
        return [self.geometry.widening(mesh, x, tails.lowest(x.dtype)), self.geometry.widening(mesh, values)]


class AvgPool(_PoolOperation):
    """The mean of each window over its voxels within the border: linear in `x`."""

    def __init__(self, kind: str, x: mtf.Tensor, geometry: Geometry, name: str | None) -> None:
        super().__init__(kind, [x], geometry, name)
        self._outputs = [mtf.Tensor(self, self._shape_like(x, geometry.outputs), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [AvgPoolGrad(self.kind, grad_ys[0], self.geometry).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        ksize, strides = self._window()
        wide = self.geometry.widened(mesh, lowering.masked(self.inputs[0]))
        y = self._call(lowering, lambda x: local_pool.mean_pool(x, ksize, strides), [wide])
        lowering.set_tensor_lowering(self.outputs[0], _correct_borders(self.geometry, mesh, y))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return [self.geometry.widening(mesh, self.inputs[0])]


class AvgPoolGrad(_PoolOperation):
    """The adjoint of `AvgPool`."""

    def __init__(self, kind: str, dy: mtf.Tensor, geometry: Geometry) -> None:
        super().__init__(kind, [dy], geometry, f"{kind}_dx")
        self._outputs = [mtf.Tensor(self, self._shape_like(dy, geometry.sizes), dy.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [AvgPool(self.kind, grad_ys[0], self.geometry, None).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        ksize, strides = self._window()
        geometry = self.geometry
        wide = geometry.wide_shape(mesh)
        dy = _correct_borders(geometry, mesh, lowering.masked(self.inputs[0]))
        dx = self._call(
            lowering,
            lambda dy: local_pool.mean_pool_grad([dy.shape[0], *wide, dy.shape[-1]], dy, ksize, strides),
            [dy],
        )
        lowering.set_tensor_lowering(self.outputs[0], geometry.narrowed(mesh, dx))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return [self.geometry.narrowing(mesh, self.outputs[0].shape, self.outputs[0].dtype)]


def _correct_borders(geometry: Geometry, mesh: ShardMeshImpl, y: LaidOutTensor) -> LaidOutTensor:
    """Rescales the means of windows that extend beyond the border to the means of their voxels within it."""
    for i, (name, size, window) in enumerate(zip(geometry.names, geometry.sizes, geometry.windows)):
        before, _ = window.pads(size)
        first = np.arange(window.output_size(size)) * window.stride - before
        exist = np.minimum(first + window.kernel, size) - np.maximum(first, 0)
        if (exist < window.kernel).any():
            axis = mesh.split_axes(mtf.Shape([mtf.Dimension(name, 0)]))[0]
            y = _scale_along(mesh, y, geometry.batch_ndims + i, axis, window.kernel / exist)
    return y


def _scale_along(
    mesh: ShardMeshImpl, y: LaidOutTensor, dim: int, axis: int | None, factors: np.ndarray
) -> LaidOutTensor:
    """Multiplies `y` by factors along its dimension `dim`, which mesh axis `axis` (or None) splits."""
    parts = 1 if axis is None else mesh.shape[axis].size
    slices = np.pad(factors, (0, -len(factors) % parts), constant_values=1).reshape([parts, 1, -1, 1])
    laid_out = mesh.laid_out_constant(lambda at: slices[0 if axis is None else at[axis]])

    def times(stack: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
        # TensorFlow's CPU kernels broadcast along at most 5 dimensions, and its graph optimizer multiplies the factors
        # of all dimensions first. The other dimensions are therefore merged.
        outer, inner = math.prod(stack.shape[1 : dim + 1]), math.prod(stack.shape[dim + 2 :])
        merged = tf.reshape(stack, [stack.shape[0], outer, stack.shape[dim + 1], inner])
        return tf.reshape(merged * tf.cast(factors, stack.dtype), stack.shape)

    return mesh.map_stacks(times, y, mesh.canonical_like(laid_out, y))
