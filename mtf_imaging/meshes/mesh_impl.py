"""The mesh implementation, which stores a mesh of processors as one shard per device.

One class covers all situations: a mesh simulated on one device (one shard of n processors), a mesh with one device per
processor (n shards of one processor), a mesh with fewer devices than processors, and a mesh of several processes, each
with one shard. The size of the graph grows with the number of shards of a process, not with the number of processors.
"""

import copy
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import layout_pairs, mtf
from mtf_imaging.meshes import collectives, local, whole
from mtf_imaging.meshes.deferred import DeferredSums
from mtf_imaging.meshes.devices import host_device
from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.meshes.random import numbers as random
from mtf_imaging.meshes.transport import InProcess, Transport
from mtf_imaging.meshes.variables import LaidOutVariable


def _laid_out(results: Sequence[Any]) -> Any:
    """Converts the results of all shards, each a stack or a tuple of stacks, to one or several laid-out tensors."""
    if isinstance(results[0], (tuple, list)):
        return tuple(LaidOutTensor(stacks) for stacks in zip(*results))
    return LaidOutTensor(results)


class _Protocol(mtf.MeshImpl):
    """The class attributes that mesh_tensorflow reads from a mesh implementation."""

    LaidOutTensor = LaidOutTensor
    LaidOutVariable = LaidOutVariable


class ShardMeshImpl(_Protocol):
    """A mesh of processors on one or more devices.

    Args:
      shape: mesh shape, in any form that `mtf.convert_to_shape` accepts.
      layout: layout rules, in any form that `mtf.convert_to_layout_rules` accepts.
      devices: device strings. Devices are left unused if the mesh cannot be divided into as many equal shards.
      random_state: `RandomState` of the program, if it draws random numbers.
      transport: the `Transport` between the shards of several processes; None if this process computes all shards, on
        `devices`.

    Attributes:
      grid: the division of the mesh into shards.
      devices: the devices of the shards of this process.
      host: the CPU of this process.
      exchanged: the `Exchange`s lowered on this mesh so far, including those between processors on one device.
    """

    def __init__(
        self,
        shape: Any,
        layout: Any,
        devices: Sequence[str],
        random_state: random.RandomState | None = None,
        transport: Transport | None = None,
    ) -> None:
        shape = mtf.convert_to_shape(shape)
        single = {dim.name for dim in shape.dims if dim.size == 1}  # a mesh dimension of size 1 splits nothing
        rules = layout_pairs(mtf.convert_to_layout_rules(layout))
        super().__init__(shape, mtf.LayoutRules({rule for rule in rules if rule[1] not in single}))
        if transport is None:
            grid = ShardGrid.make(self.shape.to_integer_list, len(devices))
            transport = InProcess(grid, list(devices)[: grid.num_shards])
        self.transport, self.grid, self.devices = transport, transport.grid, transport.devices
        self.host = host_device()
        self.random_state = random_state
        self.assignments: list[tuple] = []
        self.exchanged: list[Exchange] = []
        self._deferred = DeferredSums(transport)

    # The layout of a tensor.

    def without(self, names: Collection[str]) -> Self:
        """Returns the same mesh under a layout without the rules for the named dimensions."""
        mesh = copy.copy(self)
        rules = {rule for rule in layout_pairs(self.layout_rules) if rule[0] not in names}
        mtf.MeshImpl.__init__(mesh, self.shape, mtf.LayoutRules(rules))
        return mesh

    def split_axes(self, shape: mtf.Shape) -> list[int | None]:
        """Returns, for each dimension of `shape`, the mesh axis that splits it, or None."""
        return list(self.tensor_layout(shape).tensor_axis_to_mesh_axis)

    def slice_shape(self, tensor_shape: mtf.Shape) -> list[int]:
        """Returns the shape of the stored slices: `ceil(n / N)` for n elements over N processors (see `tails`)."""
        sizes = zip(tensor_shape.dims, self.split_axes(tensor_shape), strict=True)
        return [dim.size if axis is None else -(-dim.size // self.shape[axis].size) for dim, axis in sizes]

    def is_split(self, shape: mtf.Shape) -> bool:
        return any(axis is not None for axis in self.split_axes(shape))

    def canonical(self, x: LaidOutTensor, shape: mtf.Shape) -> LaidOutTensor:
        """Converts `x` to stacks of all slices if the layout splits a dimension of `shape`, else to stacks of one."""
        n = self.grid.stack_size
        wanted = n if self.is_split(shape) else 1
        if x.stack_size == wanted:
            return x
        if wanted == 1:
            return self.map_stacks(lambda t: t[:1], x)
        return self.map_stacks(lambda t: tf.broadcast_to(t, [n, *t.shape[1:]]), x)

    def canonical_like(self, constants: LaidOutTensor, x: LaidOutTensor) -> LaidOutTensor:
        """Converts constants of every processor to stacks of one if `x` has stacks of one."""
        if x.tensor_list[0].shape[0] == 1:
            return self.map_stacks(lambda t: t[:1], constants)
        return constants

    # Local computation.

    def map_stacks(self, fn: Callable[..., Any], *inputs: LaidOutTensor) -> Any:
        """Calls `fn(*stacks) -> stack` (or a tuple of stacks) for each shard, on the device of the shard."""
        results = []
        for shard, device in enumerate(self.devices):
            with tf.device(device):
                results.append(fn(*[x.tensor_list[shard] for x in inputs]))
        return _laid_out(results)

    def elementwise(self, fn: Callable[..., Any], *inputs: LaidOutTensor) -> Any:
        """Calls an elementwise `fn(*stacks) -> stack` like `map_stacks`, so that TensorFlow may fuse it."""
        return self.map_stacks(functools.partial(local.elementwise, fn), *inputs)

    def slicewise(self, fn: Callable[..., Any], *inputs: Any, keep_gradient: bool = False) -> Any:
        """Calls `fn` on the slices of every processor; see `mtf.MeshImpl.slicewise`.

        Args:
          fn: the function.
          *inputs: laid-out tensors, and arguments that are passed unchanged.
          keep_gradient: whether TensorFlow differentiates the results. A gradient that `fn` defines is then kept.
        """
        inputs = mtf.convert_args_to_laid_out_tensors(inputs)
        results = []
        for shard, device in enumerate(self.devices):
            stacked = [isinstance(x, LaidOutTensor) for x in inputs]
            args = [x.tensor_list[shard] if s else x for x, s in zip(inputs, stacked)]
            with tf.device(device):
                results.append(local.map_slices(fn, args, stacked, keep_gradient))
        return _laid_out(results)

    def window(
        self,
        fn: Callable[..., Any],
        batched: Sequence[LaidOutTensor],
        shared: Sequence[LaidOutTensor] = (),
        shared_axes: Collection[int] = (),
        batch_ndims: int = 1,
    ) -> Any:
        """Calls a function once per shard, with all slices of the shard as one larger batch.

        Args:
          fn: a function from `len(batched)` tensors `[batch] + ...` and the slices of `shared` to a tensor
            `[batch] + ...`, or to a tuple of such tensors.
          batched: laid-out tensors whose first `batch_ndims` dimensions are batch dimensions.
          shared: laid-out tensors that the whole batch shares, such as filters.
          shared_axes: mesh axes along which the slices of `shared` differ; `fn` is called once per coordinate along
            these axes.
          batch_ndims: number of batch dimensions.

        Returns:
          A laid-out tensor (or tuple of them) with the batch dimensions of `batched`.
        """
        results = []
        for shard, device in enumerate(self.devices):
            with tf.device(device):
                results.append(
                    local.fold_call(
                        fn,
                        [x.tensor_list[shard] for x in batched],
                        [x.tensor_list[shard] for x in shared],
                        self.grid.local,
                        shared_axes,
                        batch_ndims,
                    )
                )
        return _laid_out(results)

    def window_sum(
        self,
        fn: Callable[..., Any],
        batched: Sequence[LaidOutTensor],
        summed_axes: Collection[int],
        varying_axes: Collection[int] = (),
        batch_ndims: int = 1,
        is_gradient: bool = False,
        pieces: Sequence[Sequence[local.Piece]] | None = None,
    ) -> LaidOutTensor:
        """Calls a function that sums over the batch, such as the gradient of a filter, and sums over processors.

        Args:
          fn: a function from `len(batched)` tensors `[batch] + ...` to a tensor, which is a sum over the batch.
          batched: laid-out tensors whose first `batch_ndims` dimensions are batch dimensions.
          summed_axes: mesh axes over which results are summed: the axes that split batch or spatial dimensions.
          varying_axes: mesh axes along which results differ: the axes that split dimensions of the result.
          batch_ndims: number of batch dimensions.
          is_gradient: whether the result is the gradient of a weight, which only the update reads; see
            `sum_gradient`.
          pieces: for each shard the pieces of its slices without tails; None if no slice has a tail.

        Returns:
          A laid-out tensor with the sum.
        """
        stacks = []
        for shard, device in enumerate(self.devices):
            with tf.device(device):
                inputs = [x.tensor_list[shard] for x in batched]
                options = self.grid.local, summed_axes, varying_axes, batch_ndims
                if pieces is None:
                    stacks.append(local.fold_sum(fn, inputs, *options))
                else:
                    stacks.append(local.fold_sum_of_pieces(fn, inputs, pieces[shard], *options))
        return self.sum_shards(LaidOutTensor(stacks), summed_axes, is_gradient)

    def sum_shards(self, x: LaidOutTensor, summed_axes: Collection[int], is_gradient: bool = False) -> LaidOutTensor:
        """Sums over processors, for stacks that are already summed over the processors of each shard.

        Args:
          x: the sums of each shard.
          summed_axes: mesh axes over which to sum.
          is_gradient: see `window_sum`.
        """
        self._record("sum", summed_axes, x)
        if is_gradient and self.transport.is_between_processes:
            return self._deferred.add(x.tensor_list, summed_axes)
        return LaidOutTensor(self.transport.reduce(x.tensor_list, summed_axes, "SUM", everywhere=not is_gradient))

    def sum_gradient(self, lazy: mtf.LazyAllreduceSum) -> LaidOutTensor:
        """Returns the sum of the gradient of a weight, which only the update reads.

        Within this process, the device that keeps the weight sums the gradient. Between processes, the sum is deferred,
        so that a few messages carry all gradients.

        Args:
          lazy: the sum.
        """
        stacks, axes = lazy.laid_out_input.tensor_list, lazy.mesh_axes
        self._record("sum", axes, lazy.laid_out_input)
        if self.transport.is_between_processes:
            return self._deferred.add(collectives.sum_local(stacks, self.transport, axes), axes)
        return LaidOutTensor(collectives.allreduce(stacks, self.transport, axes, "SUM", everywhere=False))

    # Communication; `mtf.MeshImpl` documents these methods.

    def _record(self, kind: str, mesh_axes: Collection[int], x: LaidOutTensor, distance: int = 0) -> None:
        """Records an exchange of the slices of a laid-out tensor."""
        if mesh_axes:
            nbytes = math.prod(x.slice_shape) * x.dtype.size
            self.exchanged.append(Exchange(kind, tuple(sorted(set(mesh_axes))), nbytes, distance))

    def allreduce(self, x: Lowered, mesh_axes: Collection[int], reduction_fn_string: str) -> LaidOutTensor:
        x = x.to_laid_out_tensor()
        self._record("sum", mesh_axes, x)
        stacks = x.tensor_list
        return LaidOutTensor(collectives.allreduce(stacks, self.transport, mesh_axes, reduction_fn_string))

    def allconcat(self, x: Lowered, mesh_axis: int, concat_axis: int) -> LaidOutTensor:
        return self.gather(x, {mesh_axis: concat_axis})

    def gather(self, x: Lowered, dims: Mapping[int, int]) -> LaidOutTensor:
        """Does `allconcat` along several mesh dimensions at once; `dims` is {mesh axis: slice dimension}."""
        self._record("gather", dims, x.to_laid_out_tensor())
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.allconcat(stacks, self.transport, dims)) if dims else x

    def alltoall(self, x: Lowered, mesh_axis: int, split_axis: int, concat_axis: int) -> LaidOutTensor:
        self._record("all-to-all", [mesh_axis], x.to_laid_out_tensor())
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.alltoall(stacks, self.transport, mesh_axis, split_axis, concat_axis))

    def allsplit(self, x: Lowered, mesh_axis: int, split_axis: int, which: Any = None) -> LaidOutTensor:
        if which is not None:
            return super().allsplit(x, mesh_axis, split_axis, which)
        return self.scatter(x, {mesh_axis: split_axis})

    def scatter(self, x: Lowered, dims: Mapping[int, int]) -> LaidOutTensor:
        """Does `allsplit` along several mesh dimensions at once; `dims` is {mesh axis: slice dimension}."""
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.allsplit(stacks, self.transport, dims)) if dims else x

    def receive(
        self, x: Lowered, mesh_axis: int, source_pcoord: Sequence[int | None], fill: float = 0
    ) -> LaidOutTensor:
        """Implements `mtf.MeshImpl.receive`, except that a processor without a source gets a tensor of `fill`."""
        distances = {to - source for to, source in enumerate(source_pcoord) if source is not None} - {0}
        for distance in sorted(distances):  # empty if a margin is wider than all neighboring slices together
            self._record("halo", [mesh_axis], x.to_laid_out_tensor(), distance)
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.receive(stacks, self.transport, mesh_axis, source_pcoord, fill))

    # Coordinates and random numbers.

    def laid_out_constant(self, value_of: Callable[[tuple[int, ...]], Any]) -> LaidOutTensor:
        """Returns a laid-out tensor of constants, `value_of(mesh coordinates)` for each processor."""
        shards = self.transport.coordinates
        return LaidOutTensor(
            tf.constant(np.array([value_of(at) for at in self.grid.processor_coordinates(shard)])) for shard in shards
        )

    def laid_out_pnum(self) -> LaidOutTensor:
        sizes = self.grid.mesh
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return self.laid_out_constant(lambda at: np.int32(sum(c * s for c, s in zip(at, strides))))

    def laid_out_pcoord(self, mesh_axis: int) -> LaidOutTensor:
        return self.laid_out_constant(lambda at: np.int32(at[mesh_axis]))

    def random(self, shape: mtf.Shape, tf_fn: Callable[..., tf.Tensor], kwargs: Mapping[str, Any]) -> LaidOutTensor:
        """Draws for `mtf.random_uniform` and `mtf.random_normal`; the layout does not change the values."""
        assert self.random_state is not None, "the mesh has no RandomState; `Program` sets it before lowering"
        return random.draw(self, shape, tf_fn.__name__, self.random_state.next_key(), kwargs)

    # Import and export.

    def box_shape(self, shape: mtf.Shape) -> list[int]:
        """Returns the shape in which this process passes its part of a tensor in and out.

        It is the shape of a shard's box if there are several processes, else the shape of the whole tensor.
        """
        sizes = shape.to_integer_list
        if not self.transport.is_between_processes:
            return sizes
        return whole.box_shape(sizes, self.split_axes(shape), self.grid)

    def region(self, shape: mtf.Shape) -> tuple[slice, ...]:
        """Returns the region of a whole tensor that this process passes in and out: a Python slice per dimension."""
        return whole.region(shape.to_integer_list, self.split_axes(shape), self.transport)

    def regions(self, shape: mtf.Shape) -> list[tuple[slice, ...]]:
        """Returns the `region` of each process, by the numbers of the processes."""
        return whole.regions(shape.to_integer_list, self.split_axes(shape), self.transport)

    def fill_box(self, part: tf.Tensor, shape: mtf.Shape) -> tf.Tensor:
        """Extends a `region` of a tensor to the shape of a box."""
        return part if part.shape == (sizes := self.box_shape(shape)) else whole.fill_box(part, sizes)

    def clip_box(self, box: tf.Tensor, shape: mtf.Shape) -> tf.Tensor:
        """Cuts off the elements of a box beyond its `region`."""
        sizes = [part.stop - part.start for part in self.region(shape)]
        return box if box.shape == sizes else tf.slice(box, [0] * len(sizes), sizes)

    def gather_box(self, box: tf.Tensor, shape: mtf.Shape) -> tf.Tensor:
        """Gathers the boxes of all processes into the whole tensor, in every process."""
        if not self.transport.is_between_processes or not self.is_split(shape):
            return box
        with tf.device(self.host):
            return whole.gather_box(box, self.split_axes(shape), shape.to_integer_list, self.transport)

    def import_tf_tensor(self, x: mtf.Tensor, tf_x: tf.Tensor) -> LaidOutTensor:
        """Splits a whole tensor, or the box of this process, on the host and sends each shard its slices."""
        split = self.split_axes(x.shape)
        if tf_x.shape == x.shape.to_integer_list:
            return LaidOutTensor(whole.scatter(tf_x, split, self.transport, self.host))
        (device,) = self.devices
        with tf.device(device):
            return LaidOutTensor([whole.cut(tf_x, split, self.grid)])

    def export_to_tf_tensor(self, x: mtf.Tensor, laid_out_x: Lowered) -> tf.Tensor:
        """Gathers a laid-out tensor on the host: the whole tensor, or the box of this process if there are several."""
        stacks = self.canonical(laid_out_x.to_laid_out_tensor(), x.shape).tensor_list
        split = self.split_axes(x.shape)
        if self.transport.is_between_processes and self.is_split(x.shape):
            with tf.device(self.host):
                return tf.identity(whole.uncut(stacks[0], split, self.grid))
        return whole.gather(stacks, split, x.shape.to_integer_list, self.transport, self.host)

    def Print(self, x: Lowered, data: Sequence[LaidOutTensor], message: str, **kwargs: Any) -> LaidOutTensor:
        with tf.control_dependencies([tf.print(message, *[d.tensor_list[0] for d in data], **kwargs)]):
            return self.map_stacks(tf.identity, x.to_laid_out_tensor())
