"""Sums over the values that share statistics, on all processors: the whole batch or one case.

If slices are uneven, the sums cover the elements of a shard without its tails. No fill value would do: among values far
from 0, zeros are outliers, and sums of squares lose the digits of the variance.
"""

import abc
from collections.abc import Callable, Sequence
from typing import TypeVar

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails, whole
from mtf_imaging.engine.meshes.exchange import Round, sum_over
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import first_slice
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

SUM_BYTES = tf.float64.size
_T = TypeVar("_T")


class Sums(abc.ABC):
    """Sums over the values that share statistics: float64, `[cases, count, channels]`.

    Statistics are `[cases, channels]`. Both lack `cases` if the whole batch shares statistics.

    Args:
      mesh: the mesh.
      shape: shape of the tensors that are summed, `[cases, ..., channels]`.

    Attributes:
      by_case: whether functions of slices take and return the dimension `cases`.
    """

    by_case: bool
    _sums_cases = False  # whether cases are summed as well

    def __init__(self, mesh: ShardMeshImpl, shape: mtf.Shape) -> None:
        self._mesh, self._shape, self._split = mesh, shape, mesh.split_axes(shape)
        summed = slice(0 if self._sums_cases else 1, -1)
        self._summed = [axis for axis in self._split[summed] if axis is not None]
        self._has_tails = bool(tails.tails_of(mesh, shape, [dim.name for dim in shape.dims[summed]]))

    def sums(
        self,
        fn: Callable[..., tf.Tensor],
        count: int,
        tensors: Sequence[LaidOutTensor],
        statistics: Sequence[LaidOutTensor] = (),
    ) -> LaidOutTensor:
        """Sums `fn(*tensors, *statistics) -> [cases, count, channels]` over processors."""
        if self._has_tails:
            return self._sums_of_boxes(fn, count, tensors, statistics)
        return self._sums_of_slices(fn, tensors, statistics)

    def _sums_of_boxes(
        self,
        fn: Callable[..., tf.Tensor],
        count: int,
        tensors: Sequence[LaidOutTensor],
        statistics: Sequence[LaidOutTensor],
    ) -> LaidOutTensor:
        """Implements `sums` for uneven slices: calls `fn` once per shard, with its slices joined and without tails."""
        mesh, grid = self._mesh, self._mesh.grid
        split, sizes = self._split, self._shape.to_integer_list
        statistics_split, statistics_sizes = self._of_statistics(split), self._of_statistics(sizes)
        sums_split = [*statistics_split[:-1], None, statistics_split[-1]]
        shape = whole.box_shape([*statistics_sizes[:-1], count, statistics_sizes[-1]], sums_split, grid)

        def local(shard: Sequence[int], *stacks: tf.Tensor) -> tf.Tensor:
            own, others = stacks[: len(tensors)], stacks[len(tensors) :]
            boxes = [whole.true_box(x, split, sizes, grid, shard) for x in own]
            boxes += [whole.true_box(x, statistics_split, statistics_sizes, grid, shard) for x in others]
            is_empty = 0 in boxes[0].shape  # kernels return NaN for it
            sums = tf.zeros(shape, tf.float64) if is_empty else whole.fill_box(fn(*boxes), shape)
            return whole.cut(sums, sums_split, grid)

        def key(shard: Sequence[int]) -> str:
            return str(whole.region_shape(split, sizes, grid, shard))

        return mesh.sum_shards(mesh.map_shards(local, *tensors, *statistics, key=key), self._summed)

    def _of_statistics(self, dims: Sequence[_T]) -> list[_T]:
        """Returns the entries of the dimensions that statistics have."""
        return [*dims[: 1 if self.by_case else 0], dims[-1]]

    @abc.abstractmethod
    def _sums_of_slices(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        """Implements `sums` if the summed dimensions have no tails."""

    @abc.abstractmethod
    def map(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        """Returns `fn(*tensors, *statistics)`, with the shape of the first tensor."""

    @abc.abstractmethod
    def sum_cases(self, sums: LaidOutTensor) -> LaidOutTensor:
        """Sums over all cases."""

    @abc.abstractmethod
    def sum_exchanges(self, shape: Sequence[int], count: int) -> list[Round]:
        """Returns the exchanges of `sums`, for slices of a given shape."""

    @abc.abstractmethod
    def case_exchanges(self, shape: Sequence[int]) -> list[Round]:
        """Returns the exchanges of `sum_cases`."""


class _OneSum(Sums):
    """Sums over all slices of a shard, which share statistics."""

    by_case = False

    def __init__(self, mesh: ShardMeshImpl, shape: mtf.Shape) -> None:
        super().__init__(mesh, shape)
        self._channel_axes = [axis for axis in self._split[-1:] if axis is not None]

    def _sums_of_slices(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        def local(*inputs: tf.Tensor) -> tf.Tensor:
            split = len(tensors)
            return fn(*inputs[:split], *map(first_slice, inputs[split:]))

        return self._mesh.window_sum(local, [*tensors, *statistics], self._summed, self._channel_axes, batch_ndims=0)

    def map(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        return self._mesh.window(fn, tensors, statistics, self._channel_axes, batch_ndims=0)


class WholeBatch(_OneSum):
    """Sums over all dimensions but the channels: the whole batch shares statistics."""

    _sums_cases = True

    def sum_cases(self, sums: LaidOutTensor) -> LaidOutTensor:
        return sums

    def sum_exchanges(self, shape: Sequence[int], count: int) -> list[Round]:
        return sum_over(self._summed, [1, count, shape[-1]], SUM_BYTES)

    def case_exchanges(self, shape: Sequence[int]) -> list[Round]:
        return []


class _Cases(Sums):
    """Sums over the dimensions between the first one and the channels: each case has its own statistics."""

    def __init__(self, mesh: ShardMeshImpl, shape: mtf.Shape) -> None:
        super().__init__(mesh, shape)
        self._case_axes = [axis for axis in self._split[:1] if axis is not None]

    def sum_cases(self, sums: LaidOutTensor) -> LaidOutTensor:
        uneven = tails.tails_of(self._mesh, mtf.Shape(self._shape.dims[:1]))
        sums = tails.fill(self._mesh, sums, uneven, 0) if uneven else sums
        sums = self._mesh.map_stacks(lambda s: tf.reduce_sum(s, axis=1), sums)
        return self._allreduce(sums, self._case_axes)

    def sum_exchanges(self, shape: Sequence[int], count: int) -> list[Round]:
        return sum_over(self._summed, [shape[0], count, shape[-1]], SUM_BYTES)

    def case_exchanges(self, shape: Sequence[int]) -> list[Round]:
        return sum_over(self._case_axes, [1, 2, shape[-1]], SUM_BYTES)

    def _allreduce(self, sums: LaidOutTensor, axes: Sequence[int]) -> LaidOutTensor:
        return self._mesh.allreduce(sums, axes, "SUM") if axes else sums


class EachCase(_Cases):
    """Sums over each case, if the slices of a shard belong to several cases."""

    by_case = True

    def _sums_of_slices(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        return self._allreduce(self.map(fn, tensors, statistics), self._summed)

    def map(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        def spread(x: tf.Tensor, values: tf.Tensor) -> tf.Tensor:  # to every slice and case of the shard
            values = values if len(values.shape) == 3 else tf.expand_dims(values, 1)
            return tf.broadcast_to(values, [*x.shape[:2], values.shape[-1]])

        statistics = [self._mesh.map_stacks(spread, tensors[0], s) for s in statistics]
        return self._mesh.window(fn, [*tensors, *statistics], batch_ndims=1)


class OneCase(_Cases, _OneSum):
    """Sums over each case, if all slices of a shard belong to one case.

    The slices share statistics, so functions get them without `cases`, and need no copies of several cases.
    """

    def sums(
        self,
        fn: Callable[..., tf.Tensor],
        count: int,
        tensors: Sequence[LaidOutTensor],
        statistics: Sequence[LaidOutTensor] = (),
    ) -> LaidOutTensor:
        sums = super().sums(fn, count, tensors, self._of_the_case(statistics))
        return self._mesh.map_stacks(lambda s: tf.expand_dims(s, 1), sums)

    def map(
        self, fn: Callable[..., tf.Tensor], tensors: Sequence[LaidOutTensor], statistics: Sequence[LaidOutTensor]
    ) -> LaidOutTensor:
        return super().map(fn, tensors, self._of_the_case(statistics))

    def _of_the_case(self, statistics: Sequence[LaidOutTensor]) -> list[LaidOutTensor]:
        """Removes the dimension of the cases from stacks `[n, 1, channels]`."""
        return [self._mesh.map_stacks(lambda s: tf.reshape(s, [s.shape[0], s.shape[-1]]), s) for s in statistics]


def sums_of(mesh: ShardMeshImpl, shape: mtf.Shape, by_case: bool) -> Sums:
    """Returns the sums over the values that share statistics.

    Args:
      mesh: the mesh.
      shape: shape of the tensors that are summed, `[cases, ..., channels]`.
      by_case: whether each case has its own statistics.
    """
    if not by_case:
        return WholeBatch(mesh, shape)
    axis = mesh.split_axes(shape)[0]
    has_one_case = mesh.slice_shape(shape)[0] == 1 and (axis is None or mesh.grid.local[axis] == 1)
    return (OneCase if has_one_case else EachCase)(mesh, shape)
