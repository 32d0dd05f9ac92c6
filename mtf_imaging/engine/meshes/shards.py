"""The shards of a mesh: where the slices of tensors are stored, and how each device computes on its own slices."""

import copy
import functools
import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import layout_pairs, mtf
from mtf_imaging.engine.meshes import local
from mtf_imaging.engine.meshes.deferred import DeferredSums
from mtf_imaging.engine.meshes.devices import host_device
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.random.state import RandomState
from mtf_imaging.engine.meshes.transport import InProcess, Transport


class Shards(mtf.MeshImpl):
    """A mesh of processors on one or more devices. `ShardMeshImpl` adds the communication between them.

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
        random_state: RandomState | None = None,
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
        """Converts constants with one slice per processor to stacks of one if `x` has stacks of one."""
        if x.tensor_list[0].shape[0] == 1:
            return self.map_stacks(lambda t: t[:1], constants)
        return constants

    # Local computation.

    def map_shards(
        self, fn: Callable[..., Any], *values: Any, key: Callable[[Sequence[int]], Hashable] | None = None
    ) -> Any:
        """Calls a function for each shard, on the device of the shard.

        Args:
          fn: a function from the coordinates of the shard and its part of each of the `values` to a stack, or to a
            tuple of stacks.
          *values: laid-out tensors, of which `fn` gets the stacks, or sequences with a value for each shard.
          key: a function from the coordinates of a shard to a key. `fn` computes the same for shards with equal keys.
            None if it computes the same for all shards of a mesh in turns.

        Returns:
          A laid-out tensor, or a tuple of them.
        """
        lists = [getattr(x, "tensor_list", x) for x in values]
        results = []
        for index, (shard, device) in enumerate(zip(self.transport.coordinates, self.devices, strict=True)):
            with tf.device(device):
                results.append(fn(shard, *(own[index] for own in lists)))
        if isinstance(results[0], (tuple, list)):
            return tuple(LaidOutTensor(stacks) for stacks in zip(*results))
        return LaidOutTensor(results)

    def map_stacks(self, fn: Callable[..., Any], *inputs: LaidOutTensor) -> Any:
        """Calls `fn(*stacks) -> stack` (or a tuple of stacks) for each shard, on the device of the shard."""
        return self.map_shards(lambda shard, *stacks: fn(*stacks), *inputs)

    def elementwise(self, fn: Callable[..., Any], *inputs: LaidOutTensor) -> Any:
        """Calls an elementwise `fn(*stacks) -> stack` like `map_stacks`, so that TensorFlow may fuse it."""
        return self.map_stacks(functools.partial(local.elementwise, fn), *inputs)

    def slicewise(self, fn: Callable[..., Any], *inputs: object, keep_gradient: bool = False) -> Any:
        """Calls `fn` on the slices of every processor; see `mtf.MeshImpl.slicewise`.

        Args:
          fn: the function.
          *inputs: laid-out tensors, and arguments that are passed unchanged.
          keep_gradient: whether TensorFlow differentiates the results. A gradient that `fn` defines is then kept.
        """
        inputs = mtf.convert_args_to_laid_out_tensors(inputs)
        stacked = [isinstance(x, LaidOutTensor) for x in inputs]
        values = [x if is_stack else [x] * len(self.devices) for x, is_stack in zip(inputs, stacked)]
        return self.map_shards(lambda shard, *args: local.map_slices(fn, args, stacked, keep_gradient), *values)

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
        n, options = len(batched), (self.grid.local, shared_axes, batch_ndims)
        return self.map_shards(
            lambda shard, *stacks: local.fold_call(fn, stacks[:n], stacks[n:], *options), *batched, *shared
        )

    def cast(self, x: LaidOutTensor, dtype: tf.DType) -> LaidOutTensor:
        """Returns a laid-out tensor of a dtype; `x` itself if it has this dtype."""
        return x if x.dtype == dtype else self.map_stacks(lambda stack: tf.cast(stack, dtype), x)

    # Coordinates.

    def laid_out_constant(self, value_of: Callable[[tuple[int, ...]], Any]) -> LaidOutTensor:
        """Returns a laid-out tensor of constants, `value_of(mesh coordinates)` for each processor."""
        shards = self.transport.coordinates
        return LaidOutTensor(
            tf.constant(np.array([value_of(at) for at in self.grid.processor_coordinates(shard)])) for shard in shards
        )

    def slice_offsets(self, shape: mtf.Shape) -> dict[int, tf.Tensor]:
        """Returns {dimension: Tensor[] uint32}, offsets to add to the positions of slices; see `turn_mesh`."""
        return {}

    def laid_out_pnum(self) -> LaidOutTensor:
        sizes = self.grid.mesh
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return self.laid_out_constant(lambda at: np.int32(sum(c * s for c, s in zip(at, strides))))

    def laid_out_pcoord(self, mesh_axis: int) -> LaidOutTensor:
        return self.laid_out_constant(lambda at: np.int32(at[mesh_axis]))
