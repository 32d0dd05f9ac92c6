"""The operations of convolutions over 1, 2 or 3 spatial dimensions, any of which may be split.

Three operations are sufficient for gradients of any order: the convolution, its gradient with respect to the input
(the transposed convolution), and its gradient with respect to the filter.
"""

import math
from collections.abc import Mapping, Sequence

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.exchange import Round, sum_over
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.ops.conv import local as local_conv
from mtf_imaging.ops.faults import LayoutFault, cannot_split
from mtf_imaging.ops.window_op import Geometry, WindowOperation, first_axis


class _ConvOperation(WindowOperation):
    """Base class: `x[batch..., sizes..., in]`, `y[batch..., outputs..., out]` and `f[kernel..., in, out]`."""

    def __init__(
        self,
        kind: str,
        inputs: Sequence[mtf.Tensor],
        geometry: Geometry,
        filter_shape: mtf.Shape,
        batch_dims: Sequence[mtf.Dimension],
        name: str | None,
    ) -> None:
        super().__init__(kind, inputs, geometry, name)
        self._filter_shape = filter_shape
        self._batch_dims = list(batch_dims)

    @property
    def _in_dim(self) -> mtf.Dimension:
        return self._filter_shape.dims[-2]

    @property
    def _out_dim(self) -> mtf.Dimension:
        return self._filter_shape.dims[-1]

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        faults = super().layout_faults(mesh_sizes, rules)
        for dim in self._filter_shape.dims[:-2]:
            rule = rules.get(dim.name, "")
            if mesh_sizes.get(rule, 1) > 1:
                title = f"{self.kind} '{self.name}'"
                faults.append(
                    cannot_split(title, dim, rule, mesh_sizes[rule], "it is a kernel dimension of the filter")
                )
        return faults

    def flops(self, mesh: ShardMeshImpl) -> int:
        """Returns the number of multiplications and additions on one processor, also for the gradients."""
        taps_and_channels = math.prod(mesh.slice_shape(self._filter_shape))
        windows = mtf.Shape(self._batch_dims + self._spatial_dims(self.geometry.outputs))
        return 2 * taps_and_channels * math.prod(mesh.slice_shape(windows))

    def _x_shape(self) -> mtf.Shape:
        return mtf.Shape(self._batch_dims + self._spatial_dims(self.geometry.sizes) + [self._in_dim])

    def _y_shape(self) -> mtf.Shape:
        return mtf.Shape(self._batch_dims + self._spatial_dims(self.geometry.outputs) + [self._out_dim])

    def _filter_axes(self, mesh: ShardMeshImpl) -> list[int]:
        return [axis for axis in mesh.split_axes(self._filter_shape) if axis is not None]

    def _local_args(self, mesh: ShardMeshImpl) -> tuple[list[int], str, list[int]]:
        windows = self.geometry.windows
        return [w.stride for w in windows], self.geometry.local_padding(mesh), [w.dilation for w in windows]

    def _set_sum(self, lowering: mtf.Lowering, value: LaidOutTensor, dim: mtf.Dimension) -> None:
        """Lowers the output to the sum of `value` over the processors that split `dim`."""
        mesh = lowering.mesh_impl(self)
        axis = first_axis(mesh, dim)
        if axis is not None:
            value = mtf.LazyAllreduceSum(mesh, value, [axis])
        lowering.set_tensor_lowering(self.outputs[0], value)

    def _sum_exchanges(self, mesh: ShardMeshImpl, dim: mtf.Dimension) -> list[Round]:
        """Returns the exchanges of `_set_sum`."""
        (y,), axis = self.outputs, first_axis(mesh, dim)
        return sum_over([] if axis is None else [axis], mesh.slice_shape(y.shape), y.dtype.size, lazy=True)


class Conv(_ConvOperation):
    """`y = conv(x, f)`."""

    def __init__(self, kind: str, x: mtf.Tensor, f: mtf.Tensor, geometry: Geometry, name: str | None = None) -> None:
        super().__init__(kind, [x, f], geometry, f.shape, x.shape.dims[: geometry.batch_ndims], name)
        self._outputs = [mtf.Tensor(self, self._y_shape(), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (dy,), (x, f) = grad_ys, self.inputs
        return [
            ConvInputGrad(self.kind, dy, f, self.geometry).outputs[0],
            ConvFilterGrad(self.kind, x, dy, self.geometry, f.shape).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, f = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        strides, padding, dilations = self._local_args(mesh)
        y = mesh.window(
            lambda x, f: local_conv.conv(x, f, strides, padding, dilations),
            [self.geometry.widened(mesh, x)],
            [f],
            self._filter_axes(mesh),
            self.geometry.batch_ndims,
        )
        self._set_sum(lowering, y, self._in_dim)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return [self.geometry.widening(mesh, self.inputs[0]), *self._sum_exchanges(mesh, self._in_dim)]


class ConvInputGrad(_ConvOperation):
    """`x = transposed conv(y, f)`, the gradient of `Conv` with respect to its input."""

    def __init__(self, kind: str, y: mtf.Tensor, f: mtf.Tensor, geometry: Geometry, name: str | None = None) -> None:
        super().__init__(kind, [y, f], geometry, f.shape, y.shape.dims[: geometry.batch_ndims], name or f"{kind}_dx")
        self._outputs = [mtf.Tensor(self, self._x_shape(), y.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (dx,), (y, f) = grad_ys, self.inputs
        return [
            Conv(self.kind, dx, f, self.geometry).outputs[0],
            ConvFilterGrad(self.kind, dx, y, self.geometry, f.shape).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        y, f = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        strides, padding, dilations = self._local_args(mesh)
        wide = self.geometry.wide_shape(mesh)

        def conv_then_narrow(y: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
            return local_conv.conv_input_grad([y.shape[0], *wide, f.shape[-2]], f, y, strides, padding, dilations)

        def widen_then_conv(y: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
            return local_conv.conv(y, local_conv.adjoint_filter(f), strides, "VALID", dilations)

        if self.geometry.adjoint_margins(mesh) is None:
            x = mesh.window(conv_then_narrow, [y], [f], self._filter_axes(mesh), self.geometry.batch_ndims)
            x = self.geometry.narrowed(mesh, x)
        else:
            y = self.geometry.adjoint_widened(mesh, y)
            x = mesh.window(widen_then_conv, [y], [f], self._filter_axes(mesh), self.geometry.batch_ndims)
        self._set_sum(lowering, x, self._out_dim)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        if self.geometry.adjoint_margins(mesh) is None:
            halos = self.geometry.narrowing(mesh, self.outputs[0])
        else:
            halos = self.geometry.adjoint_widening(mesh, self.inputs[0])
        return [halos, *self._sum_exchanges(mesh, self._out_dim)]


class ConvFilterGrad(_ConvOperation):
    """`f = sum over batch and windows of x y`, the gradient of `Conv` with respect to its filter."""

    def __init__(
        self,
        kind: str,
        x: mtf.Tensor,
        y: mtf.Tensor,
        geometry: Geometry,
        filter_shape: mtf.Shape,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kind, [x, y], geometry, filter_shape, x.shape.dims[: geometry.batch_ndims], name or f"{kind}_df"
        )
        self._outputs = [mtf.Tensor(self, filter_shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (df,), (x, y) = grad_ys, self.inputs
        return [
            ConvInputGrad(self.kind, y, df, self.geometry).outputs[0],
            Conv(self.kind, x, df, self.geometry).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, y = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        strides, padding, dilations = self._local_args(mesh)
        *kernel, inputs, outputs = mesh.slice_shape(self._filter_shape)

        def over_windows(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            return local_conv.conv_filter_grad(x, [*kernel, inputs, outputs], y, strides, padding, dilations)

        def over_voxels(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            df = local_conv.conv_filter_grad(y, [*kernel, outputs, inputs], x, strides, padding, dilations)
            return local_conv.adjoint_filter(df)

        by_voxels = self._by_voxels(mesh)
        if by_voxels and self.geometry.margins(mesh):
            y = self.geometry.adjoint_widened(mesh, y)
        elif not by_voxels:
            x = self.geometry.widened(mesh, x)
        df = mesh.window_sum(
            over_voxels if by_voxels else over_windows,
            [x, y],
            self.geometry.summed_axes(mesh, self._batch_dims),
            self._filter_axes(mesh),
            self.geometry.batch_ndims,
        )
        lowering.set_tensor_lowering(self.outputs[0], df)

    def _by_voxels(self, mesh: ShardMeshImpl) -> bool:
        """Returns whether to widen the windows `y` instead of the voxels `x`.

        The filter's gradient is a sum over pairs of a voxel and a window, so either side may be widened. The gradient
        with respect to `x` widens `y` already. Widening `y` here as well means that no widened `x` is kept for the
        backward pass. TensorFlow's CPU kernels take as long for 8 input channels as for 16, so the side with fewer
        channels is passed as the input.
        """
        inputs, outputs = mesh.slice_shape(self._filter_shape)[-2:]
        return inputs >= outputs and self.geometry.is_its_own_adjoint(mesh)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        (x, y), (df,) = self.inputs, self.outputs
        axes = self.geometry.summed_axes(mesh, self._batch_dims)
        total = sum_over(axes, mesh.slice_shape(df.shape), df.dtype.size)
        if not self._by_voxels(mesh):
            return [self.geometry.widening(mesh, x), *total]
        return [self.geometry.adjoint_widening(mesh, y), *total] if self.geometry.margins(mesh) else total
