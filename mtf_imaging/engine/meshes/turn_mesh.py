"""A mesh some of whose processors take turns on the same devices."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.engine.meshes.local import from_grid_full, to_grid
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.transport import InProcess, Transport
from mtf_imaging.engine.meshes.turns import InTurns, Turns, grid_in_turns
from mtf_imaging.errors import NotSupportedError


class TurnMesh(ShardMeshImpl):
    """A mesh whose processors along some mesh dimensions take turns; see `turns`.

    Args:
      shape: mesh shape, in any form that `mtf.convert_to_shape` accepts.
      layout: layout rules, in any form that `mtf.convert_to_layout_rules` accepts.
      devices: device strings, for the other mesh dimensions.
      sequential: names of the mesh dimensions whose processors take turns.
      transport: the `Transport` between the shards of a turn; None if this process computes all of them, on `devices`.

    Attributes:
      turns: the `Turns`.
    """

    def __init__(
        self,
        shape: Any,
        layout: Any,
        devices: Sequence[str],
        sequential: Collection[str],
        transport: Transport | None = None,
    ) -> None:
        dims = mtf.convert_to_shape(shape).dims
        sizes = [dim.size for dim in dims]
        axes = [axis for axis, dim in enumerate(dims) if dim.name in sequential]
        self.turns = Turns(sizes, axes)
        if transport is None:
            grid = grid_in_turns(sizes, axes, len(devices))
            transport = InProcess(grid, list(devices)[: grid.num_shards])
        super().__init__(shape, layout, devices, transport=InTurns(transport, self.turns))

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

        return super().map_shards(chosen, *values)

    def laid_out_constant(self, value_of: Callable[[tuple[int, ...]], Any]) -> LaidOutTensor:
        def values(shard: Sequence[int], turn: int) -> np.ndarray:
            return np.array([value_of(at) for at in self.grid.processor_coordinates(self.turns.at(shard, turn))])

        every = range(self.turns.number)
        return LaidOutTensor(
            self.turns.table([values(shard, turn) for turn in every]) for shard in self.transport.coordinates
        )

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
        (stack,) = self._alone(x)
        if not self.is_split(shape):
            return LaidOutTensor([stack])
        view = to_grid(stack, self.grid.local)
        for axis, size in enumerate(self.grid.mesh):
            if axis in self.turns.axes:
                view = self.turns.join(view, axis, axis)
            elif view.shape[axis] < size:
                view = tf.repeat(view, size, axis)
        return LaidOutTensor([from_grid_full(view, self.grid.mesh)])

    def from_once(self, x: LaidOutTensor, shape: mtf.Shape) -> LaidOutTensor:
        """Converts the slices of all processors to those of a turn; the inverse of `to_once`."""
        (stack,) = x.tensor_list
        if not self.is_split(shape):
            return x
        view = to_grid(stack, self.grid.mesh)
        for axis in self.turns.axes:
            view = self.turns.part(view, axis, axis)
        return LaidOutTensor([from_grid_full(view, self.grid.local)])

    def _alone(self, x: LaidOutTensor) -> list[tf.Tensor]:
        if len(x.tensor_list) > 1:
            raise NotSupportedError(
                "a loop needs all processors on one device, but their turns use several devices. Fix: name all mesh "
                "dimensions in sequential, or compute without the loop."
            )
        return x.tensor_list

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
            return super().received(x, mesh_axis, source_pcoord, fill)
        return self.map_stacks(lambda stack: self.turns.receive(stack, mesh_axis, source_pcoord, fill), x)
