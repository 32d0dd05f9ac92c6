"""A mesh some of whose processors take turns on the same devices."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.engine.meshes.local import from_grid_full, to_grid
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.transport import InProcess, Transport
from mtf_imaging.engine.meshes.turns import InTurns, Turns


class TurnMesh(ShardMeshImpl):
    """A mesh whose processors along some mesh dimensions take turns; see `turns`.

    Args:
      shape: mesh shape, in any form that `mtf.convert_to_shape` accepts.
      layout: layout rules, in any form that `mtf.convert_to_layout_rules` accepts.
      devices: device strings, for the other mesh dimensions.
      sequential: names of the mesh dimensions whose processors take turns.
      transport: a function from the number of processors along each mesh dimension to the `Transport` between the
        processes; None if this process computes all shards, on `devices`.

    Attributes:
      turns: the `Turns`.
    """

    def __init__(
        self,
        shape: Any,
        layout: Any,
        devices: Sequence[str],
        sequential: Collection[str],
        transport: Callable[[Sequence[int]], Transport] | None = None,
    ) -> None:
        dims = mtf.convert_to_shape(shape).dims
        sizes = [dim.size for dim in dims]
        axes = [axis for axis, dim in enumerate(dims) if dim.name in sequential]
        self.turns = Turns(sizes, axes)
        of_a_turn = [1 if axis in axes else size for axis, size in enumerate(sizes)]
        if transport is None:
            grid = ShardGrid.make(of_a_turn, len(devices))
            once: Transport = InProcess(grid, list(devices)[: grid.num_shards])
            each = once
        else:
            once, each = transport(of_a_turn), transport(of_a_turn)
        super().__init__(shape, layout, devices, transport=InTurns(once, each, self.turns))

    def canonical(self, x: LaidOutTensor, shape: mtf.Shape) -> LaidOutTensor:
        x = super().canonical(x, shape)
        if any(axis in self.turns.axes for axis in self.split_axes(shape)):
            return x
        return LaidOutTensor(map(self.turns.first, x.tensor_list))

    def map_shards(
        self, fn: Callable[..., Any], *values: Any, key: Callable[[Sequence[int]], Hashable] | None = None
    ) -> Any:
        if key is None:
            return super().map_shards(fn, *values)

        def chosen(shard: Sequence[int], *stacks: tf.Tensor) -> Any:
            turns = [self.turns.at(shard, turn) for turn in range(self.turns.number)]
            return self.turns.choose([key(at) for at in turns], lambda turn: fn(turns[turn], *stacks))

        found = super().map_shards(chosen, *values)
        stacks = [stack for x in values for stack in getattr(x, "tensor_list", x)]
        if isinstance(found, tuple):
            return tuple(self._alike(y, stacks, key) for y in found)
        return self._alike(found, stacks, key)

    def _alike(
        self, x: LaidOutTensor, inputs: Sequence[tf.Tensor], key: Callable[[Sequence[int]], Hashable] | None = None
    ) -> LaidOutTensor:
        """Returns a value as one that all processes compute in the same turns; see `Turns.alike`."""
        if not self.transport.is_between_processes:
            return x
        shards, every = self.grid.shard_coordinates(), range(self.turns.number)
        keys = [tuple(key(self.turns.at(shard, turn)) for shard in shards) for turn in every] if key else ()
        return LaidOutTensor(self.turns.alike(stack, inputs, keys) for stack in x.tensor_list)

    def laid_out_constant(self, value_of: Callable[[tuple[int, ...]], Any]) -> LaidOutTensor:
        def values(shard: Sequence[int], turn: int) -> np.ndarray:
            return np.array([value_of(at) for at in self.grid.processor_coordinates(self.turns.at(shard, turn))])

        every = range(self.turns.number)
        found = LaidOutTensor(
            self.turns.table([values(shard, turn) for turn in every]) for shard in self.transport.coordinates
        )
        return self._alike(found, [], lambda at: values(at, 0).tobytes())

    def slice_offsets(self, shape: mtf.Shape) -> dict[int, tf.Tensor]:
        """Returns {dimension: Tensor[] uint32}, the position of this turn's slices relative to those of turn 0."""
        pairs = zip(self.split_axes(shape), self.slice_shape(shape), strict=True)
        return {d: self.turns.offset(axis, size) for d, (axis, size) in enumerate(pairs) if axis in self.turns.axes}

    # All processors at once, for loops: their iterations cannot wait for other turns.

    def at_once(self) -> ShardMeshImpl:
        """Returns the same mesh and layout with all processors on the first device."""
        mesh = ShardMeshImpl(self.shape, self.layout_rules, self.devices[:1], self.random_state)
        mesh.exchanged, mesh.assignments = self.exchanged, self.assignments
        return mesh

    def to_once(self, x: LaidOutTensor, shape: mtf.Shape) -> LaidOutTensor:
        """Converts the slices of a turn to the slices of all processors, for the mesh `at_once`."""
        if not self.is_split(shape):
            return LaidOutTensor(x.tensor_list[:1])
        views = []
        for stack, device in zip(x.tensor_list, self.devices):
            with tf.device(device):
                view = to_grid(stack, self.grid.local)
                for axis, size in enumerate(self.grid.local):
                    if axis in self.turns.axes:
                        view = self.turns.join(view, axis, axis)
                    elif view.shape[axis] < size:
                        view = tf.repeat(view, size, axis)
            views.append(view)
        for axis, shards in enumerate(self.grid.shards):
            if shards > 1:
                views = self.transport.gather(views, axis, axis)
        return LaidOutTensor([from_grid_full(views[0], self.grid.mesh)])

    def from_once(self, x: LaidOutTensor, shape: mtf.Shape) -> LaidOutTensor:
        """Converts the slices of all processors to those of a turn; the inverse of `to_once`."""
        (stack,) = x.tensor_list
        if not self.is_split(shape):
            return LaidOutTensor([stack] * len(self.devices))
        view, split = to_grid(stack, self.grid.mesh), self.split_axes(shape)
        for axis in self.turns.axes:  # values are equal along mesh dimensions that do not split the tensor
            view = self.turns.part(view, axis, axis) if axis in split else tf.gather(view, [0], axis=axis)
        stacks = []
        for shard, device in zip(self.transport.coordinates, self.devices):
            with tf.device(device):
                own = view
                for axis, (at, size) in enumerate(zip(shard, self.grid.local)):
                    if self.grid.shards[axis] > 1:
                        own = tf.gather(own, range(at * size, (at + 1) * size), axis=axis)
                stacks.append(from_grid_full(own, self.grid.local))
        return LaidOutTensor(stacks)

    # Communication between turns; `ShardMeshImpl` communicates within a turn. `InTurns` reduces and gathers.

    def scatter(self, x: Lowered, dims: Mapping[int, int]) -> LaidOutTensor:
        x = x.to_laid_out_tensor()
        for axis in self.turns.axes:
            if axis in dims:
                x = self.map_stacks(lambda stack, axis=axis: self.turns.part(stack, dims[axis] + 1, axis), x)
        return super().scatter(x, {axis: dim for axis, dim in dims.items() if axis not in self.turns.axes})

    def alltoall(self, x: Lowered, mesh_axis: int, split_axis: int, concat_axis: int) -> LaidOutTensor:
        if mesh_axis not in self.turns.axes:
            return super().alltoall(x, mesh_axis, split_axis, concat_axis)
        x = x.to_laid_out_tensor()
        self._record("all-to-all", [mesh_axis], x)

        def exchanged(stack: tf.Tensor) -> tf.Tensor:
            whole = self.turns.join(stack, mesh_axis, concat_axis + 1)
            return self.turns.part(whole, split_axis + 1, mesh_axis)

        return self.map_stacks(exchanged, x)

    def received(
        self, x: LaidOutTensor, mesh_axis: int, source_pcoord: Sequence[int | None], fill: float
    ) -> LaidOutTensor:
        if mesh_axis not in self.turns.axes:
            return self._alike(super().received(x, mesh_axis, source_pcoord, fill), x.tensor_list)
        return self.map_stacks(lambda stack: self.turns.receive(stack, mesh_axis, source_pcoord, fill), x)
