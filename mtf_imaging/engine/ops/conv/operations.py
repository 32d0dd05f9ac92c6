"""The operations of convolutions over 1, 2 or 3 spatial dimensions, any of which may be split.

Three operations are sufficient for gradients of any order: the convolution, its gradient with respect to the input
(the transposed convolution), and its gradient with respect to the filter.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import halo, tails
from mtf_imaging.engine.meshes.exchange import Round, sum_over
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import Piece, as_partial, partial_dtype
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.conv import grouped as local_conv
from mtf_imaging.engine.ops.conv.group_split import GroupSplit
from mtf_imaging.engine.ops.faults import LayoutFault, cannot_split
from mtf_imaging.engine.ops.window_op import Geometry, WindowOperation, first_axis


class _ConvOperation(WindowOperation):
    """Base class: `x[batch..., sizes..., in]`, `y[batch..., outputs..., out]` and `f[kernel..., in / groups, out]`."""

    def __init__(
        self,
        kind: str,
        inputs: Sequence[mtf.Tensor],
        geometry: Geometry,
        filter_shape: mtf.Shape,
        in_dim: mtf.Dimension,
        batch_dims: Sequence[mtf.Dimension],
        name: str | None,
    ) -> None:
        super().__init__(kind, inputs, geometry, name)
        self._filter_shape = filter_shape
        self._in_dim, self._out_dim = in_dim, filter_shape.dims[-1]
        self._groups = GroupSplit(in_dim, *filter_shape.dims[-2:])
        self._batch_dims = list(batch_dims)

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        faults = []
        for dim in self._filter_shape.dims[:-2]:
            rule = rules.get(dim.name, "")
            if mesh_sizes.get(rule, 1) > 1:
                title = f"{self.kind} '{self.name}'"
                faults.append(
                    cannot_split(title, dim, rule, mesh_sizes[rule], "it is a kernel dimension of the filter")
                )
        return faults + self._groups.layout_faults(f"{self.kind} '{self.name}'", mesh_sizes, rules)

    def flops(self, mesh: ShardMeshImpl) -> int:
        """Returns the number of multiplications and additions on one processor, also for the gradients."""
        taps_and_channels = math.prod(self._filter_slice(mesh))
        windows = mtf.Shape(self._batch_dims + self._spatial_dims(self.geometry.outputs))
        return 2 * taps_and_channels * math.prod(mesh.slice_shape(windows))

    def _x_shape(self) -> mtf.Shape:
        return mtf.Shape(self._batch_dims + self._spatial_dims(self.geometry.sizes) + [self._in_dim])

    def _wide_slice(self, mesh: ShardMeshImpl) -> list[int]:
        """Returns the shape of a widened slice of `x`."""
        shape, first = mesh.slice_shape(self._x_shape()), self.geometry.batch_ndims
        return [*shape[:first], *self.geometry.wide_shape(mesh), shape[-1]]

    def _y_shape(self) -> mtf.Shape:
        return mtf.Shape(self._batch_dims + self._spatial_dims(self.geometry.outputs) + [self._out_dim])

    def _filter_slice(self, mesh: ShardMeshImpl) -> list[int]:
        """Returns the shape of the filter that a processor computes with."""
        return mesh.slice_shape(self._groups.split_shape(mesh, self._filter_shape))

    def _filter_names(self, dim: int) -> list[str]:
        return [self._filter_shape.dims[dim].name]

    def _filter_splitting(self, mesh: ShardMeshImpl) -> list[Round]:
        """Returns the exchanges that give each processor the filters of its groups."""
        itemsize = self.inputs[1].dtype.size
        return self._groups.splitting(mesh, mesh.slice_shape(self._filter_shape), itemsize, self._out_dim)

    def _y_splitting(self, mesh: ShardMeshImpl, widened: bool) -> list[Round]:
        """Returns the exchanges that give each processor the channels of its groups in `y`."""
        shape = mesh.slice_shape(self._y_shape())
        for m in self.geometry.adjoint_margins(mesh) or [] if widened else []:
            shape[m.dim] = m.width
        return self._groups.splitting(mesh, shape, self.inputs[0].dtype.size, self._out_dim)

    def _filter_axes(self, mesh: ShardMeshImpl) -> list[int]:
        """Returns the mesh axes along which these filters differ."""
        axes = mesh.split_axes(self._groups.split_shape(mesh, self._filter_shape))
        return [axis for axis in axes if axis is not None]

    def _local_args(self, mesh: ShardMeshImpl) -> tuple[list[int], str, list[int]]:
        windows = self.geometry.windows
        return [w.stride for w in windows], self.geometry.local_padding(mesh), [w.dilation for w in windows]

    def _is_partial(self, mesh: ShardMeshImpl, other: mtf.Dimension) -> bool:
        """Returns whether the result is a sum over the processors that split the channels `other` of the inputs."""
        return self._groups.number == 1 and first_axis(mesh, other) is not None

    def _set_result(
        self, lowering: mtf.Lowering, value: LaidOutTensor, own: mtf.Dimension, other: mtf.Dimension
    ) -> None:
        """Lowers the output, with channels `own`, to the results of processors whose inputs have channels `other`.

        Without groups, it is their sum over the processors that split `other`.
        """
        mesh = lowering.mesh_impl(self)
        if self._groups.number > 1:
            value = self._groups.merged(mesh, value, own)
        elif self._is_partial(mesh, other):
            value = mtf.LazyAllreduceSum(mesh, value, [first_axis(mesh, other)])
        lowering.set_tensor_lowering(self.outputs[0], value)

    def _result_exchanges(self, mesh: ShardMeshImpl, own: mtf.Dimension, other: mtf.Dimension) -> list[Round]:
        """Returns the exchanges of `_set_result`."""
        (y,), axis = self.outputs, first_axis(mesh, other)
        if self._groups.number > 1:
            return self._groups.merging(mesh, y, own)
        itemsize = partial_dtype(y.dtype).size
        return sum_over([] if axis is None else [axis], mesh.slice_shape(y.shape), itemsize, lazy=True)


class Conv(_ConvOperation):
    """`y = conv(x, f)`."""

    def __init__(self, kind: str, x: mtf.Tensor, f: mtf.Tensor, geometry: Geometry, name: str | None = None) -> None:
        batch_dims = x.shape.dims[: geometry.batch_ndims]
        super().__init__(kind, [x, f], geometry, f.shape, x.shape.dims[-1], batch_dims, name)
        self._outputs = [mtf.Tensor(self, self._y_shape(), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (dy,), (x, f) = grad_ys, self.inputs
        return [
            ConvInputGrad(self.kind, dy, f, self.geometry, self._in_dim).outputs[0],
            ConvFilterGrad(self.kind, x, dy, self.geometry, f.shape).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, f = lowering.masked(self.inputs[0]), lowering.masked(self.inputs[1], self._filter_names(-2))
        strides, padding, dilations = self._local_args(mesh)
        y = mesh.window(
            as_partial(
                lambda x, f: local_conv.conv(x, f, strides, padding, dilations), self._is_partial(mesh, self._in_dim)
            ),
            [self._groups.split(mesh, self.geometry.widened(mesh, x), self._in_dim)],
            [self._groups.split(mesh, f, self._out_dim)],
            self._filter_axes(mesh),
            self.geometry.batch_ndims,
        )
        self._set_result(lowering, y, self._out_dim, self._in_dim)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        x = self.inputs[0]
        return [
            self.geometry.widening(mesh, x),
            *self._groups.splitting(mesh, self._wide_slice(mesh), x.dtype.size, self._in_dim),
            *self._filter_splitting(mesh),
            *self._result_exchanges(mesh, self._out_dim, self._in_dim),
        ]


class ConvInputGrad(_ConvOperation):
    """`x = transposed conv(y, f)`, the gradient of `Conv` with respect to its input."""

    def __init__(
        self,
        kind: str,
        y: mtf.Tensor,
        f: mtf.Tensor,
        geometry: Geometry,
        in_dim: mtf.Dimension,
        name: str | None = None,
    ) -> None:
        batch_dims = y.shape.dims[: geometry.batch_ndims]
        super().__init__(kind, [y, f], geometry, f.shape, in_dim, batch_dims, name or f"{kind}_dx")
        self._outputs = [mtf.Tensor(self, self._x_shape(), y.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (dx,), (y, f) = grad_ys, self.inputs
        return [
            Conv(self.kind, dx, f, self.geometry).outputs[0],
            ConvFilterGrad(self.kind, dx, y, self.geometry, f.shape).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        y, f = lowering.masked(self.inputs[0]), lowering.masked(self.inputs[1], self._filter_names(-1))
        f = self._groups.split(mesh, f, self._out_dim)
        strides, padding, dilations = self._local_args(mesh)
        geometry, groups = self.geometry, self._groups.per_processor(mesh)
        widens, slides = geometry.adjoint_margins(mesh) is not None, geometry.is_sliding_adjoint
        covered = [cut.size for cut in geometry.adjoint_cuts(mesh)] if widens else geometry.wide_shape(mesh)

        def transposed_conv(y: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
            shape = [y.shape[0], *covered, f.shape[-2] * groups]
            return local_conv.conv_input_grad(shape, f, y, strides, padding, dilations)

        def adjoint_conv(y: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([y]):  # otherwise all adjoint filters would exist from the start of a step
                f = local_conv.adjoint_filter(f, groups)
            return local_conv.conv(y, f, strides, "VALID", dilations)

        local = adjoint_conv if widens and slides else transposed_conv
        x = mesh.window(
            as_partial(local, self._is_partial(mesh, self._out_dim)),
            [self._groups.split(mesh, geometry.adjoint_widened(mesh, y) if widens else y, self._out_dim)],
            [f],
            self._filter_axes(mesh),
            geometry.batch_ndims,
        )
        if not widens:
            x = geometry.narrowed(mesh, x)
        elif not slides:
            x = halo.widen(mesh, x, geometry.adjoint_cuts(mesh))
        self._set_result(lowering, x, self._in_dim, self._out_dim)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        if self.geometry.adjoint_margins(mesh) is None:
            (x,) = self.outputs
            dtype = partial_dtype(x.dtype) if self._is_partial(mesh, self._out_dim) else x.dtype
            halos = self.geometry.narrowing(mesh, self._groups.split_shape(mesh, x.shape), dtype)
        else:
            halos = self.geometry.adjoint_widening(mesh, self.inputs[0])
        return [
            halos,
            *self._y_splitting(mesh, widened=self.geometry.adjoint_margins(mesh) is not None),
            *self._filter_splitting(mesh),
            *self._result_exchanges(mesh, self._in_dim, self._out_dim),
        ]


class ConvFilterGrad(_ConvOperation):
    """`f = sum over batch and windows of x y`, the gradient of `Conv` with respect to its filter."""

    def __init__(
        self,
        kind: str,
        x: mtf.Tensor,
        y: mtf.Tensor,
        geometry: Geometry,
        filter_shape: mtf.Shape,
    ) -> None:
        batch_dims = x.shape.dims[: geometry.batch_ndims]
        super().__init__(kind, [x, y], geometry, filter_shape, x.shape.dims[-1], batch_dims, f"{kind}_df")
        self._outputs = [mtf.Tensor(self, filter_shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (df,), (x, y) = grad_ys, self.inputs
        return [
            ConvInputGrad(self.kind, y, df, self.geometry, self._in_dim).outputs[0],
            Conv(self.kind, x, df, self.geometry).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, y = [lowering.masked(t) for t in self.inputs]
        strides, padding, dilations = self._local_args(mesh)
        *kernel, inputs, outputs = self._filter_slice(mesh)
        groups = self._groups.per_processor(mesh)

        def over_windows(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            return local_conv.conv_filter_grad(x, [*kernel, inputs, outputs], y, strides, padding, dilations)

        def over_voxels(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            shape = [*kernel, outputs // groups, inputs * groups]
            df = local_conv.conv_filter_grad(y, shape, x, strides, padding, dilations)
            return local_conv.adjoint_filter(df, groups)

        by_voxels = self._by_voxels(mesh)
        if by_voxels and self.geometry.margins(mesh):
            y = self.geometry.adjoint_widened(mesh, y)
        elif not by_voxels:
            x = self.geometry.widened(mesh, x)
        axes, pieces = self.geometry.summed_axes(mesh, self._batch_dims), self._pieces(mesh, by_voxels)
        is_partial = pieces is not None or any(mesh.grid.mesh[axis] > mesh.grid.local[axis] for axis in axes)
        df = mesh.window_sum(
            as_partial(over_voxels if by_voxels else over_windows, is_partial),
            [self._groups.split(mesh, x, self._in_dim), self._groups.split(mesh, y, self._out_dim)],
            axes,
            self._filter_axes(mesh),
            self.geometry.batch_ndims,
            is_gradient=lowering.is_gradient(self.outputs[0]),
            pieces=pieces,
        )
        df = mesh.cast(df, self.outputs[0].dtype)
        lowering.set_tensor_lowering(self.outputs[0], self._groups.merged(mesh, df, self._out_dim))

    def _pieces(self, mesh: ShardMeshImpl, by_voxels: bool) -> Callable[[Sequence[int]], list[Piece]] | None:
        """Returns a function from a shard to its slices of `x` and `y` without tails; None if there are no tails.

        Zeros in the tails are not enough, because the product of 0 and a NaN or infinite voxel is NaN.
        """
        geometry, fixed = self.geometry, self.inputs[0 if by_voxels else 1]
        uneven = tails.tails_of(mesh, fixed.shape, geometry.names)
        strides = [1 if by_voxels else w.stride for w in geometry.windows]

        def pieces(shard: Sequence[int]) -> list[Piece]:
            found = []
            for region in tails.regions(mesh, uneven, shard):
                wide = {}
                for dim, size in region.sizes.items():
                    place = dim - geometry.batch_ndims
                    wide[dim] = (size - 1) * strides[place] + geometry.windows[place].extent
                found.append(Piece(region.places, [region.sizes, wide] if by_voxels else [wide, region.sizes]))
            return found

        return pieces if uneven else None

    def _by_voxels(self, mesh: ShardMeshImpl) -> bool:
        """Returns whether to widen the windows `y` instead of the voxels `x`.

        The filter's gradient is a sum over pairs of a voxel and a window, so either side may be widened. The gradient
        with respect to `x` widens `y` already. Widening `y` here as well means that no widened `x` is kept for the
        backward pass. TensorFlow's CPU kernels take as long for 8 input channels as for 16, so the side with fewer
        channels is passed as the input.
        """
        inputs, outputs = self._filter_slice(mesh)[-2:]
        return inputs * self._groups.per_processor(mesh) >= outputs and self.geometry.is_its_own_adjoint(mesh)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        (x, y), (df,) = self.inputs, self.outputs
        by_voxels = self._by_voxels(mesh)
        rounds = []
        if not by_voxels:
            rounds.append(self.geometry.widening(mesh, x))
        elif self.geometry.margins(mesh):
            rounds.append(self.geometry.adjoint_widening(mesh, y))
        x_slice = mesh.slice_shape(x.shape) if by_voxels else self._wide_slice(mesh)
        return [
            *rounds,
            *self._groups.splitting(mesh, x_slice, x.dtype.size, self._in_dim),
            *self._y_splitting(mesh, widened=by_voxels and bool(self.geometry.margins(mesh))),
            *sum_over(
                self.geometry.summed_axes(mesh, self._batch_dims),
                self._filter_slice(mesh),
                partial_dtype(df.dtype).size,
            ),
            *self._groups.merging(mesh, df, self._out_dim),
        ]
