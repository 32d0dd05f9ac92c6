"""Converts between whole tensors and shards. Each device receives and returns only its own shard.

In this module, `split` has one entry for each dimension of a whole tensor: the mesh axis that splits it, or None. The
box of a shard is the region of the whole tensor that the slices of its processors cover. If slices are uneven, the
whole tensor is extended at its end, so that the boxes are equal (see `tails`).
"""

from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.devices import number_of
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.local import extended, from_grid_full, take_at, to_grid
from mtf_imaging.engine.meshes.transport import Transport


def scatter(whole: tf.Tensor, split: Sequence[int | None], transport: Transport, home: str) -> list[tf.Tensor]:
    """Splits a whole tensor into the stacks of all shards of this process.

    Args:
      whole: the tensor.
      split: the mesh axis that splits each dimension, or None.
      transport: the `Transport`.
      home: the device that stores the whole tensor and cuts it into boxes.

    Returns:
      The stacks, one per shard, each on its device. If no dimension is split, every shard gets the whole tensor.
    """
    grid = transport.grid
    with tf.device(home):
        whole = _extended(transport.part(whole, split), split, grid)
    boxes, stacks = {}, []
    for shard, device in zip(transport.coordinates, transport.devices):
        place = tuple(0 if axis is None else shard[axis] for axis in split)
        if place not in boxes:  # shards that differ only along other mesh dimensions share a box
            boxes[place] = _box(whole, place, split, grid, home)
        with tf.device(device):
            stacks.append(cut(boxes[place], split, grid))
    return stacks


def _extended(whole: tf.Tensor, split: Sequence[int | None], grid: ShardGrid) -> tf.Tensor:
    """Extends a whole tensor, or the part of a turn, at its end until all slices are equal."""
    for dim, axis in enumerate(split):
        if axis is not None:
            size = whole.shape[dim]
            whole = extended(whole, dim, size + -size % (grid.shards[axis] * grid.local[axis]))
    return whole


def gather(
    stacks: Sequence[tf.Tensor], split: Sequence[int | None], sizes: Sequence[int], transport: Transport, home: str
) -> tf.Tensor:
    """Gathers stacks into a whole tensor of the given sizes on device `home`; the inverse of `scatter`.

    If no dimension is split, all shards are equal. The function then returns the shard on `home` if there is one, else
    the first shard.

    Args:
      stacks: the shards of this process.
      split: the mesh axis that splits each dimension, or None.
      sizes: the sizes of the whole tensor.
      transport: the `Transport`. Between processes, every process gets the whole tensor.
      home: the device.
    """
    if all(axis is None for axis in split):
        shard = number_of(home, transport.devices)
        with tf.device(transport.devices[shard]):
            whole = tf.squeeze(stacks[shard], [0])
        with tf.device(home):
            return tf.identity(whole)
    boxes = []
    for stack, device in zip(stacks, transport.devices):
        with tf.device(device):
            boxes.append(box_of(stack, split, sizes, transport))
    with tf.device(home):
        return tf.identity(_clipped(_joined(boxes, split, transport), sizes))


def gather_box(box: tf.Tensor, split: Sequence[int | None], sizes: Sequence[int], transport: Transport) -> tf.Tensor:
    """Gathers the boxes of all processes into a whole tensor of the given sizes, in every process."""
    return _clipped(_joined([box], split, transport), sizes)


def _joined(boxes: list[tf.Tensor], split: Sequence[int | None], transport: Transport) -> tf.Tensor:
    """Joins the boxes of all shards to one tensor."""
    shards = transport.grid.shards
    for axis in reversed(range(len(shards))):
        if transport.is_between_processes:
            if axis in split and shards[axis] > 1:
                boxes = transport.gather(boxes, axis, split.index(axis))
            continue
        # Join the boxes along the last mesh dimension first, because shards are in row-major order.
        size = shards[axis]
        groups = [boxes[i : i + size] for i in range(0, len(boxes), size)]
        boxes = [tf.concat(g, split.index(axis)) if axis in split and size > 1 else g[0] for g in groups]
    (whole,) = boxes
    return whole


def box_of(stack: tf.Tensor, split: Sequence[int | None], sizes: Sequence[int], transport: Transport) -> tf.Tensor:
    """Returns the box of a shard, of all its turns; `sizes` are those of the whole tensor."""
    box = transport.joined(uncut(stack, split, transport.grid), split)
    return _clipped(box, box_shape(sizes, split, transport.within_turn.grid))


def _clipped(whole: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """Cuts off the elements that `_extended` appended."""
    return whole if whole.shape.as_list() == list(sizes) else tf.slice(whole, [0] * len(sizes), sizes)


def regions(sizes: Sequence[int], split: Sequence[int | None], transport: Transport) -> list[tuple[slice, ...]]:
    """Returns the region of a whole tensor that the slices of each process cover: a Python slice per dimension.

    If slices are uneven, the last regions are shorter or empty.
    """
    if not transport.is_between_processes:
        return [tuple(slice(0, size) for size in sizes)]
    return [_region(sizes, split, transport.grid, shard) for shard in transport.grid.shard_coordinates()]


def region(sizes: Sequence[int], split: Sequence[int | None], transport: Transport) -> tuple[slice, ...]:
    """Returns the region of a whole tensor that the slices of this process cover; see `regions`."""
    if not transport.is_between_processes:
        return tuple(slice(0, size) for size in sizes)
    (shard,) = transport.coordinates
    return _region(sizes, split, transport.grid, shard)


def _region(
    sizes: Sequence[int], split: Sequence[int | None], grid: ShardGrid, shard: Sequence[int]
) -> tuple[slice, ...]:
    parts = []
    for size, axis in zip(sizes, split):
        width = size if axis is None else -(-size // grid.mesh[axis]) * grid.local[axis]
        begin = 0 if axis is None else min(shard[axis] * width, size)
        parts.append(slice(begin, min(begin + width, size)))
    return tuple(parts)


def true_box(
    stack: tf.Tensor, split: Sequence[int | None], sizes: Sequence[int], grid: ShardGrid, shard: Sequence[int]
) -> tf.Tensor:
    """Returns the box of a shard without the tails of uneven slices; it may be empty.

    Args:
      stack: the stack of the shard.
      split: the mesh axis that splits each dimension, or None.
      sizes: the sizes of the whole tensor.
      grid: the division of the mesh into shards.
      shard: the coordinates of the shard.
    """
    return _clipped(uncut(stack, split, grid), region_shape(split, sizes, grid, shard))


def region_shape(split: Sequence[int | None], sizes: Sequence[int], grid: ShardGrid, shard: Sequence[int]) -> list[int]:
    """Returns the shape of `true_box`."""
    return [part.stop - part.start for part in _region(sizes, split, grid, shard)]


def box_shape(sizes: Sequence[int], split: Sequence[int | None], grid: ShardGrid) -> list[int]:
    """Returns the box shape of a shard."""
    pairs = zip(sizes, split, strict=True)
    return [size if axis is None else -(-size // grid.mesh[axis]) * grid.local[axis] for size, axis in pairs]


def fill_box(part: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """Extends a `region` at its end to the shape of a box.

    An empty region becomes zeros.
    """
    if part.shape.num_elements() == 0:
        return tf.zeros(shape, part.dtype)
    for dim, size in enumerate(shape):
        part = extended(part, dim, size)
    return part


def _box(whole: tf.Tensor, place: Sequence[int], split: Sequence[int | None], grid: ShardGrid, home: str) -> tf.Tensor:
    """Returns the box of a shard; `place` is its coordinate along each tensor dimension, 0 if not split."""
    parts = [1 if axis is None else grid.shards[axis] for axis in split]
    if all(n == 1 for n in parts):
        return whole
    sizes = [size // n for size, n in zip(whole.shape, parts)]
    with tf.device(home):
        return tf.slice(whole, [at * size for at, size in zip(place, sizes)], sizes)


def cut(box: tf.Tensor, split: Sequence[int | None], grid: ShardGrid) -> tf.Tensor:
    """Converts the box of a shard to its stack."""
    if all(axis is None for axis in split):
        return tf.expand_dims(box, 0)
    shape: list[int] = []
    order, place = [], {}
    for size, axis in zip(box.shape, split):
        if axis is not None:
            place[axis] = len(shape)
            shape.append(grid.local[axis])
            size //= grid.local[axis]
        order.append(len(shape))
        shape.append(size)
    lead = [place[axis] for axis in sorted(place)]
    view = tf.transpose(tf.reshape(box, shape), lead + order)
    sizes = [grid.local[axis] if axis in place else 1 for axis in range(len(grid.local))]
    slice_shape = [shape[i] for i in order]
    return from_grid_full(tf.reshape(view, sizes + slice_shape), grid.local)


def uncut(stack: tf.Tensor, split: Sequence[int | None], grid: ShardGrid) -> tf.Tensor:
    """Converts the stack of a shard to its box; the inverse of `cut`."""
    view = to_grid(stack, grid.local)
    ndims = len(grid.local)
    unused = [axis for axis in range(ndims) if axis not in split]
    view = take_at(view, unused, [0] * len(unused), grid.local)
    order = list(unused)
    shape = []
    for i, axis in enumerate(split):
        order += ([] if axis is None else [axis]) + [ndims + i]
        shape.append(view.shape[ndims + i] * (1 if axis is None else grid.local[axis]))
    return tf.reshape(tf.transpose(view, order), shape)
