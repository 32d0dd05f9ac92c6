"""Halos between devices with one slice each along a dimension: the strips of both neighbors are joined to the slice.

Both neighbors' strips are exchanged at once. A margin beyond the border of the whole tensor is a strip of `fill`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.halo.steps import Step, cut
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import constant
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.transport import Message

# The number of voxels in a strip, and a function from a shard's index in this process to its strip.
_Strips = tuple[int, Callable[[int], tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Join(Step):
    """Joins the strips of both neighbors to the slice of each device."""

    margin: Margin

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        before, after, dim = self.margin.before, self.margin.after, self.margin.dim + 1
        slices = _all_slices(mesh, x)

        to_next = before, lambda index: cut(slices[index], {dim - 1: (self.margin.size - before, before)})
        to_previous = after, lambda index: cut(slices[index], {dim - 1: (0, after)})
        received = _exchange(mesh, self.margin, slices, {1: to_next, -1: to_previous})

        def join(shard: Sequence[int], stack: tf.Tensor, strips: Mapping[int, tf.Tensor]) -> tf.Tensor:
            parts = [stack]
            if before:
                parts.insert(0, strips.get(1, _filled(stack, dim, before, fill)))
            if after:
                parts.append(strips.get(-1, _filled(stack, dim, after, fill)))
            return tf.concat(parts, dim)

        return mesh.map_shards(join, slices, received)

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Adds the values in the margins to the voxels from which they were copied."""
        parts, margin = [], self.margin
        slices = _all_slices(mesh, dx)
        for stack, shard, device in zip(slices, mesh.transport.coordinates, mesh.devices, strict=True):
            with tf.device(device):
                parts.append(_split(stack, margin, shard[margin.axis], mesh.grid.shards[margin.axis]))
        to_previous: _Strips = margin.before, lambda index: parts[index]["before"]
        to_next: _Strips = margin.after, lambda index: parts[index]["after"]
        received = _exchange(mesh, margin, slices, {-1: to_previous, 1: to_next})
        return mesh.map_shards(
            lambda shard, own, strips: _joined(own, strips.get(1), strips.get(-1), margin.dim + 1), parts, received
        )


def _split(stack: tf.Tensor, margin: Margin, at: int, shards: int) -> dict[str, tf.Tensor]:
    """Splits a widened slice into its margins, the voxels in the margins of neighbors, and the rest.

    Args:
      stack: the widened slice.
      margin: its margin.
      at: coordinate of the shard along the dimension.
      shards: number of shards along the dimension.

    Returns:
      A dict without empty parts, in order: "before", "head", "middle", "tail", "after". "head" is also in the margin of
      the previous shard, and "tail" in the margin of the next shard. If both overlap, the slice is not split: "middle".
    """
    head, tail = margin.after if at > 0 else 0, margin.before if at < shards - 1 else 0
    if head + tail > margin.size:
        head = tail = 0
    middle = margin.size - head - tail
    sizes = {"before": margin.before, "head": head, "middle": middle, "tail": tail, "after": margin.after}
    sizes = {name: size for name, size in sizes.items() if size}
    return dict(zip(sizes, tf.split(stack, list(sizes.values()), margin.dim + 1), strict=True))


def _joined(
    parts: Mapping[str, tf.Tensor], from_previous: tf.Tensor | None, from_next: tf.Tensor | None, dim: int
) -> tf.Tensor:
    """Joins the parts of a slice, plus the gradients from the margins of its neighbors."""
    own = {name: parts[name] for name in ("head", "middle", "tail") if name in parts}
    if from_previous is not None and "head" in own:
        own["head"] += from_previous
    if from_next is not None and "tail" in own:
        own["tail"] += from_next
    joined = tf.concat(list(own.values()), dim) if len(own) > 1 else next(iter(own.values()))
    if from_previous is not None and "head" not in own:
        joined += _padded(from_previous, dim, 0, joined.shape[dim] - from_previous.shape[dim])
    if from_next is not None and "tail" not in own:
        joined += _padded(from_next, dim, joined.shape[dim] - from_next.shape[dim], 0)
    return joined


def _exchange(
    mesh: ShardMeshImpl, margin: Margin, slices: Sequence[tf.Tensor], directions: Mapping[int, _Strips]
) -> list[dict[int, tf.Tensor]]:
    """Sends strips to neighbors, in both directions at once.

    Args:
      mesh: a `ShardMeshImpl`.
      margin: the margin.
      slices: the slices from which strips are cut, one for each shard of this process.
      directions: the strips, {1: to the next shards, -1: to the previous ones}.

    Returns:
      The received strips of each shard, {1: from the previous shard, -1: from the next one}.
    """
    messages, keys = [], []
    for distance, (voxels, strip) in directions.items():
        if not voxels:
            continue
        shape = slices[0].shape.as_list()
        shape[margin.dim + 1] = voxels
        for group in mesh.transport.groups([margin.axis]):
            senders, receivers = (group[:-1], group[1:]) if distance > 0 else (group[1:], group[:-1])
            for source, target in zip(senders, receivers):
                messages.append(Message(source, target, tuple(shape), strip))
                keys.append((mesh.transport.index(target), distance))
    received: list[dict[int, tf.Tensor]] = [{} for _ in slices]
    for (index, distance), value in zip(keys, mesh.transport.exchange(messages, slices), strict=True):
        if index is not None:
            received[index][distance] = value
    return received


def _all_slices(mesh: ShardMeshImpl, x: LaidOutTensor) -> list[tf.Tensor]:
    """Returns the stacks of a tensor with a slice for each processor, even if it is stored once."""
    n = mesh.grid.stack_size
    if x.stack_size == n:
        return x.tensor_list
    return mesh.map_stacks(lambda stack: tf.broadcast_to(stack, [n, *stack.shape[1:]]), x).tensor_list


def _filled(stack: tf.Tensor, dim: int, voxels: int, fill: float) -> tf.Tensor:
    """Returns a strip of `fill`."""
    shape = stack.shape.as_list()
    shape[dim] = voxels
    return tf.fill(shape, constant(fill, stack.dtype))


def _padded(x: tf.Tensor, dim: int, before: int, after: int) -> tf.Tensor:
    """Extends a strip with zeros."""

    def zeros(voxels: int) -> list[tf.Tensor]:
        return [tf.zeros([*x.shape[:dim], voxels, *x.shape[dim + 1 :]], x.dtype)] if voxels else []

    parts = [*zeros(before), x, *zeros(after)]
    return tf.concat(parts, dim) if len(parts) > 1 else x
