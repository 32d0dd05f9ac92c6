"""The operations that move blocks of voxels to channels and back.

A block is a window with a stride of its own size. Slices that cut blocks exchange halos, as in a convolution. Split
channels are gathered, because a processor needs the channels of all others.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.space import local
from mtf_imaging.engine.ops.window_op import Geometry, WindowOperation, first_axis


class _BlockOperation(WindowOperation):
    """Base class of both operations: the windows of the geometry are the blocks."""

    @property
    def _blocks(self) -> list[int]:
        return [window.kernel for window in self.geometry.windows]

    def _shape(self, sizes: Sequence[int], channels: int) -> mtf.Shape:
        first, last = self.inputs[0].shape.dims[: self.geometry.batch_ndims], self.inputs[0].shape.dims[-1]
        return mtf.Shape([*first, *self._spatial_dims(sizes), mtf.Dimension(last.name, channels)])

    def _gathered(self, mesh: ShardMeshImpl, x: LaidOutTensor) -> LaidOutTensor:
        """Returns a tensor with all channels of the input on every processor."""
        channels = self.inputs[0].shape.dims[-1]
        axis, last = first_axis(mesh, channels), len(x.slice_shape) - 1
        return x if axis is None else tails.gather(mesh, x, {axis: last}, {last: channels.size})

    def _scattered(self, mesh: ShardMeshImpl, y: LaidOutTensor) -> LaidOutTensor:
        """Returns a tensor of which each processor keeps its own channels."""
        axis = first_axis(mesh, self.outputs[0].shape.dims[-1])
        return y if axis is None else tails.scatter(mesh, y, {axis: len(y.slice_shape) - 1})

    def _gathering(self, mesh: ShardMeshImpl, slice_shape: Sequence[int]) -> list[Round]:
        """Returns the exchanges of `_gathered` for a slice shape."""
        x = self.inputs[0]
        axis = first_axis(mesh, x.shape.dims[-1])
        nbytes = math.prod(slice_shape) * x.dtype.size
        return [] if axis is None else [Round([Exchange("gather", (axis,), nbytes)])]


class SpaceToDepth(_BlockOperation):
    """`y[..., index of the block..., position in the block, channel] = x`."""

    def __init__(self, x: mtf.Tensor, geometry: Geometry, name: str | None) -> None:
        super().__init__("space_to_depth", [x], geometry, name)
        shape = self._shape(geometry.outputs, x.shape.dims[-1].size * math.prod(self._blocks))
        self._outputs = [mtf.Tensor(self, shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [DepthToSpace(grad_ys[0], self.geometry, f"{self.kind}_dx").outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        wide = self.geometry.widened(mesh, lowering.masked(self.inputs[0]))

        def rearranged(x: tf.Tensor) -> tf.Tensor:
            return local.space_to_depth(x, self._blocks)

        y = mesh.window(rearranged, [self._gathered(mesh, wide)], batch_ndims=self.geometry.batch_ndims)
        lowering.set_tensor_lowering(self.outputs[0], self._scattered(mesh, y))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        (x,) = self.inputs
        *batch, channels = mesh.slice_shape(mtf.Shape([*x.shape.dims[: self.geometry.batch_ndims], x.shape.dims[-1]]))
        wide_slice = [*batch, *self.geometry.wide_shape(mesh), channels]
        return [self.geometry.widening(mesh, x), *self._gathering(mesh, wide_slice)]


class DepthToSpace(_BlockOperation):
    """The inverse of `SpaceToDepth`; the geometry describes the result."""

    def __init__(self, x: mtf.Tensor, geometry: Geometry, name: str | None) -> None:
        super().__init__("depth_to_space", [x], geometry, name)
        shape = self._shape(geometry.sizes, x.shape.dims[-1].size // math.prod(self._blocks))
        self._outputs = [mtf.Tensor(self, shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [SpaceToDepth(grad_ys[0], self.geometry, f"{self.kind}_dx").outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        wide = self.geometry.wide_shape(mesh)

        def rearranged(x: tf.Tensor) -> tf.Tensor:
            return local.depth_to_space(x, self._blocks, wide)

        x = self._gathered(mesh, lowering.masked(self.inputs[0]))
        y = self._scattered(mesh, mesh.window(rearranged, [x], batch_ndims=self.geometry.batch_ndims))
        lowering.set_tensor_lowering(self.outputs[0], self.geometry.narrowed(mesh, y))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        gathering = self._gathering(mesh, mesh.slice_shape(self.inputs[0].shape))
        return [*gathering, self.geometry.narrowing(mesh, self.outputs[0].shape, self.outputs[0].dtype)]
