"""Communication between the processors of a mesh, first within each shard and then between shards.

Every function takes and returns a list with the shards of this process; a `Transport` moves data between shards. `axis`
is the position of a mesh dimension. A value that is stored once stays stored once if the result is equal on all
processors.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.local import constant, from_grid, from_grid_full, reshape, to_grid
from mtf_imaging.engine.meshes.transport import Message, Transport

_REDUCE = {"SUM": tf.reduce_sum, "MAX": tf.reduce_max, "MIN": tf.reduce_min}


def allreduce(
    stacks: Sequence[tf.Tensor], transport: Transport, axes: Collection[int], reduction: str, everywhere: bool = True
) -> list[tf.Tensor]:
    """Reduces ("SUM", "MAX" or "MIN") over the processors that differ only along mesh dimensions `axes`.

    `everywhere` states whether most shards read the result; see `Transport.reduce`.
    """
    axes, local = sorted(set(axes)), transport.grid.local
    if all(local[axis] == 1 for axis in axes):
        return transport.reduce(stacks, axes, reduction, everywhere)
    views = transport.reduce(_reduce_local(stacks, transport, axes, reduction), axes, reduction, everywhere)
    return _per_shard(lambda view: from_grid(view, local), transport.devices, views)


def _reduce_local(
    stacks: Sequence[tf.Tensor], transport: Transport, axes: Sequence[int], reduction: str
) -> list[tf.Tensor]:
    """Returns grid views of size 1 along `axes`: the stacks, reduced over the processors of each shard."""
    local = transport.grid.local

    def reduce_stack(stack: tf.Tensor) -> tf.Tensor:
        view = _REDUCE[reduction](to_grid(stack, local), axis=axes, keepdims=True)
        repeats = math.prod(local[axis] for axis in axes) if stack.shape[0] == 1 else 1
        return view * tf.cast(repeats, view.dtype) if reduction == "SUM" and repeats > 1 else view

    return _per_shard(reduce_stack, transport.devices, stacks)


def sum_local(stacks: Sequence[tf.Tensor], transport: Transport, axes: Collection[int]) -> list[tf.Tensor]:
    """Sums over the processors of each shard that differ only along mesh dimensions `axes`, but not over shards."""
    axes, local = sorted(set(axes)), transport.grid.local
    if all(local[axis] == 1 for axis in axes):
        return list(stacks)
    views = _reduce_local(stacks, transport, axes, "SUM")
    return _per_shard(lambda view: from_grid(view, local), transport.devices, views)


def _per_shard(fn: Callable[..., tf.Tensor], devices: Sequence[str], *lists: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    results = []
    for device, *values in zip(devices, *lists):
        with tf.device(device):
            results.append(fn(*values))
    return results


def _full_along(view: tf.Tensor, axis: int, local: Sequence[int]) -> tf.Tensor:
    """Repeats a grid view along mesh dimension `axis` if its size is 1 there."""
    if view.shape[axis] == local[axis]:
        return view
    return tf.repeat(view, local[axis], axis=axis)


def _move(view: tf.Tensor, source: int, target: int) -> tf.Tensor:
    """Moves dimension `source` directly before dimension `target`; both are positions before the move."""
    order = [d for d in range(len(view.shape)) if d != source]
    order.insert(order.index(target), source)
    return tf.transpose(view, order)


def _merge_local(view: tf.Tensor, axis: int, dim: int, grid: ShardGrid) -> tf.Tensor:
    """Concatenates the slices along mesh dimension `axis` in slice dimension `dim`; the size of `axis` becomes 1."""
    ndims = len(grid.local)
    shape = list(view.shape)
    moved = _move(view, axis, ndims + dim)
    shape[ndims + dim] *= shape[axis]
    shape[axis] = 1
    return tf.reshape(moved, shape)


def allconcat(stacks: Sequence[tf.Tensor], transport: Transport, dims: Mapping[int, int]) -> list[tf.Tensor]:
    """Gives every processor the concatenated slices of all processors along mesh dimensions.

    All mesh dimensions are gathered in one call, because intermediate results would be repeated along the remaining
    mesh dimensions.

    Args:
      stacks: the shards.
      transport: the `Transport`.
      dims: {mesh dimension: slice dimension along which to concatenate}.
    """

    grid, devices = transport.grid, transport.devices

    def merge(axis: int, dim: int, view: tf.Tensor) -> tf.Tensor:
        return _merge_local(_full_along(view, axis, grid.local), axis, dim, grid)

    views = _per_shard(lambda stack: to_grid(stack, grid.local), devices, stacks)
    for axis, dim in dims.items():
        views = _per_shard(functools.partial(merge, axis, dim), devices, views)
        views = transport.gather(views, axis, len(grid.local) + dim)
    return _per_shard(lambda view: from_grid(view, grid.local), devices, views)


def _split_for_shards(view: tf.Tensor, dim: int, axis: int, grid: ShardGrid) -> tf.Tensor:
    """Reshapes dimension `dim` of a view to (shards along `axis`, processors of a shard along `axis`, rest)."""
    shape = list(view.shape)
    parts = grid.mesh[axis]
    return tf.reshape(view, [*shape[:dim], grid.shards[axis], grid.local[axis], shape[dim] // parts, *shape[dim + 1 :]])


def alltoall(
    stacks: Sequence[tf.Tensor], transport: Transport, axis: int, split_dim: int, concat_dim: int
) -> list[tf.Tensor]:
    """Gives processor j along `axis` the j-th piece (along `split_dim`) of every slice, joined along `concat_dim`."""
    grid = transport.grid
    ndims = len(grid.local)
    pieces: list[list[tf.Tensor]] = []  # pieces[shard of this process][position of the target shard along `axis`]
    for stack, device in zip(stacks, transport.devices):
        with tf.device(device):
            view = _full_along(to_grid(stack, grid.local), axis, grid.local)
            parts = []
            for piece in tf.split(view, grid.shards[axis], ndims + split_dim):
                # [..., source, ..., (target, rest), ...]: move the targets to the place of the sources, then merge the
                # sources into the concatenated dimension.
                shape = list(piece.shape)
                here = ndims + split_dim
                split = tf.reshape(
                    piece, [*shape[:here], grid.local[axis], shape[here] // grid.local[axis], *shape[here + 1 :]]
                )
                split = _move(split, here, axis)  # [..., target, source, ...]
                concat = ndims + 1 + concat_dim
                merged = _move(split, axis + 1, concat)
                shape[here] //= grid.local[axis]
                shape[ndims + concat_dim] *= grid.local[axis]
                parts.append(tf.reshape(merged, shape))
            pieces.append(parts)

    def piece_of(position: int, index: int) -> tf.Tensor:
        return pieces[index][position]

    piece_shape = tuple(pieces[0][0].shape)
    groups = transport.groups([axis])
    messages = [
        Message(source, target, piece_shape, functools.partial(piece_of, position))
        for group in groups
        for position, target in enumerate(group)
        for source in group
    ]
    received = iter(transport.exchange(messages, stacks))
    results = list(stacks)
    for group in groups:
        for target in group:
            from_all = [next(received) for _ in group]
            index = transport.index(target)
            if index is not None:
                with tf.device(transport.devices[index]):
                    results[index] = from_grid(tf.concat(from_all, ndims + concat_dim), grid.local)
    return results


def allsplit(stacks: Sequence[tf.Tensor], transport: Transport, dims: Mapping[int, int]) -> list[tf.Tensor]:
    """Splits the slice of each processor along some dimensions; its mesh coordinates select the piece that it keeps.

    Args:
      stacks: the shards.
      transport: the `Transport`.
      dims: {mesh dimension: slice dimension to split}; all at once, for the same reason as in `allconcat`.
    """
    grid, results = transport.grid, []
    for stack, shard, device in zip(stacks, transport.coordinates, transport.devices):
        with tf.device(device):
            view = to_grid(stack, grid.local)
            for axis, dim in dims.items():
                view = _own_part(view, axis, len(grid.local) + dim, shard[axis], grid)
            results.append(from_grid_full(view, grid.local))
    return results


def _own_part(view: tf.Tensor, axis: int, dim: int, shard: int, grid: ShardGrid) -> tf.Tensor:
    """Splits dimension `dim` of a view and returns one piece for each processor of shard `shard` along `axis`."""
    split = tf.gather(_split_for_shards(view, dim, axis, grid), shard, axis=dim)
    split = _move(split, dim, axis)  # [..., part, processor, ...]
    if view.shape[axis] == 1:
        return tf.squeeze(split, [axis + 1])
    shape = list(split.shape)
    n = shape[axis]  # the diagonal of these two dimensions: piece i for processor i
    split = tf.reshape(split, [*shape[:axis], n * n, *shape[axis + 2 :]])
    return tf.gather(split, list(range(0, n * n, n + 1)), axis=axis)


def _ranges(sources: Sequence[int | None], local_along: int) -> list[tuple[int | None, int, int]]:
    """Joins the sources of consecutive processors into ranges `(shard, first, count)`; shard None means no source."""
    ranges: list[tuple[int | None, int, int]] = []
    for source in sources:
        shard, first = (None, 0) if source is None else divmod(source, local_along)
        if ranges:
            last_shard, last_first, count = ranges[-1]
            if shard == last_shard and (shard is None or first == last_first + count):
                ranges[-1] = (last_shard, last_first, count + 1)
                continue
        ranges.append((shard, first, 1))
    return ranges


def receive(
    stacks: Sequence[tf.Tensor],
    transport: Transport,
    axis: int,
    source_pcoord: Sequence[int | None],
    fill: float,
) -> list[tf.Tensor]:
    """Gives processor i along `axis` the slice of processor `source_pcoord[i]`, or a slice of `fill` if it is None."""
    grid, dtype = transport.grid, stacks[0].dtype
    n, slice_shape = grid.local[axis], stacks[0].shape[1:]
    shape = [grid.stack_size, *slice_shape]
    # TensorFlow cannot slice tensors of 4 mesh and 5 tensor dimensions, so the other dimensions are folded.
    folded = [math.prod(grid.local[:axis]), n, math.prod(grid.local[axis + 1 :]) * math.prod(slice_shape)]

    def fold(stack: tf.Tensor) -> tf.Tensor:
        return reshape(stack if stack.shape == shape else tf.broadcast_to(stack, shape), folded)

    views = _per_shard(fold, transport.devices, stacks)

    def cut(first: int, count: int, index: int) -> tf.Tensor:
        return views[index] if count == n else views[index][:, first : first + count]

    groups, messages = transport.groups([axis]), []
    ranges = [_ranges(source_pcoord[position * n : (position + 1) * n], n) for position in range(grid.shards[axis])]
    for group in groups:
        for target, pieces in zip(group, ranges, strict=True):
            for source, first, count in pieces:
                if source is not None:
                    make = functools.partial(cut, first, count)
                    messages.append(Message(group[source], target, (folded[0], count, folded[2]), make))
    received = iter(transport.exchange(messages, stacks))
    results = list(stacks)
    for group in groups:
        for target, pieces in zip(group, ranges, strict=True):
            values = [None if source is None else next(received) for source, _, _ in pieces]
            index = transport.index(target)
            if index is None:
                continue
            with tf.device(transport.devices[index]):
                for i, (source, _, count) in enumerate(pieces):
                    if source is None:
                        values[i] = tf.fill([folded[0], count, folded[2]], constant(fill, dtype))
                results[index] = reshape(tf.concat(values, 1) if len(values) > 1 else values[0], shape)
    return results
