"""Halo exchange: `widen` adds the voxels of neighbors to slices, and `narrow` is the adjoint of `widen`.

How the voxels arrive depends on the devices of the neighbors:

- If neighbors share a device, widened slices are gathered from the stack (`gathering`).
- If every device has one slice along a dimension, the strips of both neighbors are concatenated with the slice
  (`joining`), dimension by dimension. They are cut from slices that are already widened along earlier dimensions, so
  corners are filled, too.
- If some neighbors share a device and others do not, slices are padded, and the voxels of neighbors are written into
  the margins in place.
- Margins that reach past the next slice are exchanged one by one, with one message per pair of devices (`far`).

Cropped dimensions are cut first, so that cropped voxels are not sent.

The adjoint adds the values in the margins to the voxels that they were copied from, in the opposite order.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.meshes.halo import far, gathering, joining
from mtf_imaging.meshes.halo.margin import Margin, Piece, exchanges, is_far, strips
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.local import constant, reshape
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

_PADDED_DIMENSIONS = 6


class _Stage(NamedTuple):
    """Margins that are widened together, or a single far margin."""

    far: bool
    margins: list[Margin]


def _stages(mesh: ShardMeshImpl, margins: Sequence[Margin], gathered: Sequence[Margin] = ()) -> list[_Stage]:
    """Returns the stages of an exchange, in order.

    Gathered margins come first. Margins that are only padding come last, because no neighbor needs them.
    """
    ordered = sorted(margins, key=lambda m: (m not in gathered, m.mesh_axis is None))
    stages = []
    for m in ordered:
        if m not in gathered and is_far(mesh, m):
            stages.append(_Stage(True, [m]))
        elif stages and not stages[-1].far:
            stages[-1].margins.append(m)
        else:
            stages.append(_Stage(False, [m]))
    return stages


def _index(rank: int, dim: int, begin: int, size: int) -> tuple[list[int], list[int]]:
    """Returns `begin` and `size` of a tf.slice that cuts stacks only along slice dimension `dim`."""
    begins, sizes = [0] * rank, [-1] * rank
    begins[dim + 1], sizes[dim + 1] = begin, size
    return begins, sizes


def _read(stack: tf.Tensor, dim: int, begin: int, size: int) -> tf.Tensor:
    return tf.slice(stack, *_index(len(stack.shape), dim, begin, size))


def _write(stack: tf.Tensor, value: tf.Tensor, dim: int, begin: int, size: int) -> tf.Tensor:
    """Writes `value` into `stack`, in place because no other operation reads the stack afterwards."""
    axis = dim + 1
    # TensorFlow's kernel is fastest with three dimensions and does not support arbitrary ranks.
    outer, width, inner = math.prod(stack.shape[:axis]), stack.shape[axis], math.prod(stack.shape[axis + 1 :])
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=reshape(stack, [outer, width, inner]),
        begin=[0, begin, 0],
        end=[outer, begin + size, inner],
        strides=[1, 1, 1],
        value=tf.reshape(value, [outer, size, inner]),
    )
    return tf.reshape(written, stack.shape)


def _shifted(mesh: ShardMeshImpl, x: LaidOutTensor, axis: int, distance: int, fill: float) -> LaidOutTensor:
    """Gives processor i the slice of processor `i - distance` along `axis`, or `fill` beyond the border."""
    n = mesh.shape[axis].size
    return mesh.receive(x, axis, [i - distance if 0 <= i - distance < n else None for i in range(n)], fill)


def _map_receivers(
    mesh: ShardMeshImpl,
    fn: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    x: LaidOutTensor,
    values: LaidOutTensor,
    axis: int,
    distance: int,
) -> LaidOutTensor:
    """Calls `fn(stack of x, stack of values)` for each shard that receives values, and keeps all other shards.

    The other shards are at the border. `_shifted` gives them fill values, which would not change them.
    """
    local, n = mesh.grid.local[axis], mesh.shape[axis].size
    stacks = []
    for shard, device, stack, value in zip(
        mesh.transport.coordinates, mesh.devices, x.tensor_list, values.tensor_list, strict=True
    ):
        first = shard[axis] * local - distance
        with tf.device(device):
            stacks.append(fn(stack, value) if first < n and first + local > 0 else stack)
    return LaidOutTensor(stacks)


def _read_strip(stack: tf.Tensor, dim: int, begin: int, size: int, own: Sequence[Margin]) -> tf.Tensor:
    """Reads a strip along `dim`, without the margins along the dimensions of `own`."""
    begins, sizes = _index(len(stack.shape), dim, begin, size)
    for m in own:
        begins[m.dim + 1], sizes[m.dim + 1] = m.before, m.size
    return tf.slice(stack, begins, sizes)


def _fill_margin(
    mesh: ShardMeshImpl, x: LaidOutTensor, margin: Margin, piece: Piece, own: Sequence[Margin], fill: float
) -> LaidOutTensor:
    """Writes a piece that a neighbor owns into a margin."""
    dim, voxels = margin.dim, piece.voxels
    values = mesh.map_stacks(lambda s: _read_strip(s, dim, piece.source, voxels, own), x)
    values = _shifted(mesh, values, margin.axis, piece.distance, fill)

    def write(stack: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        return _write(stack, _pad(value, own, fill), dim, piece.target, voxels)

    return _map_receivers(mesh, write, x, values, margin.axis, piece.distance)


def _return_margin(
    mesh: ShardMeshImpl, dx: LaidOutTensor, margin: Margin, piece: Piece, own: Sequence[Margin]
) -> LaidOutTensor:
    """Adds the values in a margin to the voxels that they were copied from; the adjoint of `_fill_margin`."""
    dim, voxels = margin.dim, piece.voxels
    values = mesh.map_stacks(lambda s: _read_strip(s, dim, piece.target, voxels, own), dx)
    values = _shifted(mesh, values, margin.axis, -piece.distance, 0)

    def add(stack: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        return _write(stack, _read(stack, dim, piece.source, voxels) + _pad(value, own, 0), dim, piece.source, voxels)

    return _map_receivers(mesh, add, dx, values, margin.axis, -piece.distance)


def widen(mesh: ShardMeshImpl, x: LaidOutTensor, margins: Sequence[Margin], fill: float = 0) -> LaidOutTensor:
    """Widens every slice of a laid-out tensor by its margins; voxels beyond the border of the whole tensor are `fill`.

    Args:
      mesh: a `ShardMeshImpl`.
      x: a laid-out tensor.
      margins: a `Margin` for each dimension to widen.
      fill: a number.

    Returns:
      A laid-out tensor; `x` itself if all margins are empty.
    """
    x, margins = _cut_out(mesh, x, [m.removed for m in margins]), [m.added for m in margins]
    reached = gathering.reach(mesh, x.tensor_list[0], margins) if any(m.before or m.after for m in margins) else 0
    gathered = [m for m in margins if gathering.is_gathered(mesh, m, reached)]
    for stage in _stages(mesh, margins, gathered):
        if stage.far:
            (margin,) = stage.margins
            mesh.exchanged += exchanges(mesh, [margin], x.slice_shape, x.dtype.size)
            x = far.widen(mesh, x, margin, fill)
        elif any(m.before or m.after for m in stage.margins):
            x = _widen_together(mesh, x, stage.margins, reached, fill)
    for m in margins:
        if m.split is not None and m.split.needs_cut:
            x = _cut(mesh, x, m)
    return x


def _widen_together(
    mesh: ShardMeshImpl, x: LaidOutTensor, margins: Sequence[Margin], reached: int, fill: float
) -> LaidOutTensor:
    """Widens slices by the margins of one stage; `reached` is `gathering.reach` of the whole exchange."""
    joined = [m for m in margins if joining.is_joined(mesh, m)]
    if not joined:
        return _widen_stacks(mesh, x, margins, reached, fill)
    # Margins that are only padding come last, because no neighbor needs them.
    within = [m for m in margins if m not in joined and m.mesh_axis is not None]
    if within:
        x = _widen_stacks(mesh, x, within, reached, fill)
    for m in joined:
        x = joining.widen(mesh, x, m, fill)
    padding = [m for m in margins if m.mesh_axis is None]
    return mesh.map_stacks(lambda stack: _pad(stack, padding, fill), x) if padding else x


def _widen_stacks(
    mesh: ShardMeshImpl, x: LaidOutTensor, margins: Sequence[Margin], reached: int, fill: float
) -> LaidOutTensor:
    """Widens slices along dimensions in which slices share a device."""
    gathered = [m for m in margins if gathering.is_gathered(mesh, m, reached)]
    axes = {m.mesh_axis for m in gathered}
    sent = exchanges(mesh, margins, x.slice_shape, x.dtype.size)
    mesh.exchanged += [e for e in sent if axes.issuperset(e.axes)]
    make = functools.partial(gathering.gather, mesh, reached=reached) if gathered else _pad
    x = mesh.map_stacks(lambda stack: make(stack, margins=margins, fill=fill), x)
    for m, piece, own in strips(mesh, [m for m in margins if m not in gathered]):
        x = _fill_margin(mesh, x, m, piece, own, fill)
    return x


def narrow(mesh: ShardMeshImpl, dx: LaidOutTensor, margins: Sequence[Margin]) -> LaidOutTensor:
    """Converts gradients of widened slices to gradients of the slices; the adjoint of `widen` for any fill."""
    for m in reversed(margins):
        if m.split is not None and m.split.needs_cut:
            dx = _uncut(mesh, dx, m)
    for stage in reversed(_stages(mesh, [m.added for m in margins])):
        if stage.far:
            (margin,) = stage.margins
            dx = far.narrow(mesh, dx, margin)
            mesh.exchanged += exchanges(mesh, [margin], dx.slice_shape, dx.dtype.size, adjoint=True)
        else:
            dx = _narrow_together(mesh, dx, stage.margins)
    return _padded(mesh, dx, [m.removed for m in margins])


def _narrow_together(mesh: ShardMeshImpl, dx: LaidOutTensor, margins: Sequence[Margin]) -> LaidOutTensor:
    """Converts the gradients of one stage; the adjoint of `_widen_together`."""
    joined = [m for m in margins if joining.is_joined(mesh, m)]
    if joined:
        dx = _cut_out(mesh, dx, [m for m in margins if m.mesh_axis is None])
        for m in reversed(joined):
            dx = joining.narrow(mesh, dx, m)
        margins = [m for m in margins if m not in joined and m.mesh_axis is not None]
    for m, piece, own in reversed(list(strips(mesh, margins))):
        dx = _return_margin(mesh, dx, m, piece, own)
    return _cut_out(mesh, dx, margins)


def _cut_out(mesh: ShardMeshImpl, x: LaidOutTensor, margins: Sequence[Margin]) -> LaidOutTensor:
    """Cuts slices out of widened slices; returns `x` itself if all margins are empty."""
    if not any(m.before or m.after for m in margins):
        return x

    def cut_out(stack: tf.Tensor) -> tf.Tensor:
        begin, size = [0] * len(stack.shape), [-1] * len(stack.shape)
        for m in margins:
            begin[m.dim + 1], size[m.dim + 1] = m.before, m.size
        return tf.slice(stack, begin, size)

    return mesh.map_stacks(cut_out, x)


def _padded(mesh: ShardMeshImpl, dx: LaidOutTensor, margins: Sequence[Margin]) -> LaidOutTensor:
    """Pads slices with zeros; the adjoint of `_cut_out`."""
    if not any(m.before or m.after for m in margins):
        return dx
    return mesh.map_stacks(lambda stack: _pad(stack, margins, 0), dx)


def _pad(stack: tf.Tensor, margins: Sequence[Margin], fill: float) -> tf.Tensor:
    """Pads a stack along all margins at once.

    TensorFlow's CPU kernel supports at most 6 dimensions. For more, the leading dimensions are joined.
    """
    margins = [m for m in margins if m.before or m.after]
    if not margins:
        return stack
    first = min(m.dim for m in margins) + 1 if len(stack.shape) > _PADDED_DIMENSIONS else 1
    folded = reshape(stack, [math.prod(stack.shape[:first]), *stack.shape[first:]])
    pads = [[0, 0] for _ in folded.shape]
    for m in margins:
        pads[m.dim + 2 - first] = [m.before, m.after]
    padded = tf.pad(folded, pads, constant_values=constant(fill, stack.dtype))
    return reshape(padded, [*stack.shape[:first], *padded.shape[1:]])


def _starts(mesh: ShardMeshImpl, m: Margin) -> Iterator[list[int]]:
    """Yields, for each shard, the positions at which its processors cut their widened slices along one dimension."""
    for shard in mesh.transport.coordinates:
        yield [m.plan.starts[at[m.axis]] for at in mesh.grid.processor_coordinates(shard)]


def _gather(mesh: ShardMeshImpl, x: LaidOutTensor, m: Margin, index_of: Callable[[int], list[int]]) -> LaidOutTensor:
    """Gathers the voxels at positions `index_of(start)` of every slice along the dimension of a margin."""
    stacks = []
    for stack, starts, device in zip(x.tensor_list, _starts(mesh, m), mesh.devices):
        with tf.device(device):
            index = [index_of(start) for start in starts]
            stacks.append(tf.gather(stack, index, axis=m.dim + 1, batch_dims=1))
    return type(x)(stacks)


def _cut(mesh: ShardMeshImpl, x: LaidOutTensor, m: Margin) -> LaidOutTensor:
    """Cuts the `length` voxels that each processor needs from its widened slice."""
    if m.cut is not None:
        return _cut_out(mesh, x, [m.cut])
    return _gather(mesh, x, m, lambda start: list(range(start, start + m.plan.length)))


def _uncut(mesh: ShardMeshImpl, dx: LaidOutTensor, m: Margin) -> LaidOutTensor:
    """Puts gradients back at their positions in the widened slice, with zeros elsewhere; the adjoint of `_cut`."""
    if m.cut is not None:
        return _padded(mesh, dx, [m.cut])
    length, width = m.plan.length, m.plan.width

    def append_zero(stack: tf.Tensor) -> tf.Tensor:
        folded = tf.reshape(stack, [-1, *stack.shape[m.dim + 1 :]])
        padded = tf.pad(folded, [[0, 0], [0, 1]] + [[0, 0]] * (len(folded.shape) - 2))
        return tf.reshape(padded, [*stack.shape[: m.dim + 1], *padded.shape[1:]])

    dx = mesh.map_stacks(append_zero, dx)
    return _gather(mesh, dx, m, lambda start: [r - start if 0 <= r - start < length else length for r in range(width)])
