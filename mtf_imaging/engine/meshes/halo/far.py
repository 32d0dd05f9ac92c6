"""Halos that reach past the next slice, sent in one message per pair of devices.

The line of a shard along one dimension is the concatenation of its slices. A shard receives one piece of the line of
every shard that its halo reaches, and joins the pieces to a widened line. It then cuts its widened slices, which
overlap, from the widened line. An exchange slice by slice would need one message for every slice that the halo reaches.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.halo.steps import Step
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import constant
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.transport import Message


class _Piece(NamedTuple):
    """Voxels of one shard's line that belong to the line of another shard, or of the same shard.

    Attributes:
      source: number of the shard that has the voxels.
      target: number of the shard that needs the voxels.
      voxels: number of voxels along the line.
      read: index of the first voxel in the source's line.
      write: index of the first voxel in the target's line.
    """

    source: int
    target: int
    voxels: int
    read: int
    write: int


_Received = list[tuple[_Piece, tf.Tensor]]  # by one shard


def _pieces(mesh: ShardMeshImpl, margin: Margin) -> list[_Piece]:
    """Returns the pieces of all widened lines; the pieces for one target are in voxel order."""
    length, pieces = mesh.grid.local[margin.axis] * margin.size, []
    for group in mesh.transport.groups([margin.axis]):
        for to, target in enumerate(group):
            first, last = to * length - margin.before, (to + 1) * length + margin.after
            for at, source in enumerate(group):
                begin, end = max(first, at * length), min(last, (at + 1) * length)
                if begin < end:
                    pieces.append(_Piece(source, target, end - begin, begin - at * length, begin - first))
    return pieces


@dataclasses.dataclass(frozen=True)
class Far(Step):
    """Exchanges one margin of a split dimension."""

    margin: Margin

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        margin = self.margin
        lines = mesh.map_stacks(lambda stack: _line(_by_slice(mesh, stack, margin)), x).tensor_list
        width = lines[0].shape[1] + margin.before + margin.after

        def join(shard: Sequence[int], parts: _Received) -> tf.Tensor:
            (first, _), (last, _) = parts[0], parts[-1]
            line = tf.concat([value for _, value in parts], 1)
            before, after = first.write, width - last.write - last.voxels
            if before or after:
                line = tf.pad(line, [[0, 0], [before, after], [0, 0]], constant_values=constant(fill, line.dtype))
            return _stack(mesh, _cut(mesh, line, margin), margin, x.slice_shape)

        return mesh.map_shards(join, _send(mesh, lines, _pieces(mesh, margin)))

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Adds the values in the margins to the voxels from which they were copied."""
        margin = self.margin
        lines = mesh.map_stacks(lambda stack: _add(_by_slice(mesh, stack, margin), margin), dx).tensor_list
        length = mesh.grid.local[margin.axis] * margin.size
        back = [_Piece(p.target, p.source, p.voxels, p.write, p.read) for p in _pieces(mesh, margin)]

        def add(shard: Sequence[int], parts: _Received) -> tf.Tensor:
            pads = [(piece.write, length - piece.write - piece.voxels) for piece, _ in parts]
            total = tf.add_n(
                [tf.pad(x, [[0, 0], ends, [0, 0]]) if any(ends) else x for (_, x), ends in zip(parts, pads)]
            )
            slices = tf.reshape(total, [total.shape[0], -1, margin.size, total.shape[2]])
            return _stack(mesh, slices, margin, dx.slice_shape)

        return mesh.map_shards(add, _send(mesh, lines, back))


def _send(mesh: ShardMeshImpl, lines: Sequence[tf.Tensor], pieces: Sequence[_Piece]) -> list[_Received]:
    """Sends pieces of lines; returns the pieces that each shard of this process receives."""
    others, _, inner = lines[0].shape

    def cut(piece: _Piece, index: int) -> tf.Tensor:
        line = lines[index]
        return line if piece.voxels == line.shape[1] else tf.slice(line, [0, piece.read, 0], [-1, piece.voxels, -1])

    messages = [Message(p.source, p.target, (others, p.voxels, inner), functools.partial(cut, p)) for p in pieces]
    received: list[_Received] = [[] for _ in lines]
    for piece, value in zip(pieces, mesh.transport.exchange(messages, lines), strict=True):
        index = mesh.transport.index(piece.target)
        if index is not None:
            received[index].append((piece, value))
    return received


def _by_slice(mesh: ShardMeshImpl, stack: tf.Tensor, margin: Margin) -> tf.Tensor:
    """Reshapes a stack to `[others, slices of a line, voxels of a slice, inner]`."""
    local, axis, dim = mesh.grid.local, margin.axis, margin.dim
    outer, between = math.prod(local[:axis]), math.prod(local[axis + 1 :]) * math.prod(stack.shape[1 : dim + 1])
    shape = [outer, local[axis], between, stack.shape[dim + 1], math.prod(stack.shape[dim + 2 :])]
    view = tf.transpose(tf.reshape(stack, shape), [0, 2, 1, 3, 4])
    return tf.reshape(view, [outer * between, local[axis], *shape[3:]])


def _stack(mesh: ShardMeshImpl, slices: tf.Tensor, margin: Margin, slice_shape: Sequence[int]) -> tf.Tensor:
    """Reshapes `[others, slices of a line, voxels of a slice, inner]` to a stack; the inverse of `_by_slice`."""
    local, axis, dim = mesh.grid.local, margin.axis, margin.dim
    outer, voxels = math.prod(local[:axis]), slices.shape[2]
    view = tf.reshape(slices, [outer, slices.shape[0] // outer, local[axis], voxels, slices.shape[3]])
    shape = [math.prod(local), *slice_shape[:dim], voxels, *slice_shape[dim + 1 :]]
    return tf.reshape(tf.transpose(view, [0, 2, 1, 3, 4]), shape)


def _line(slices: tf.Tensor) -> tf.Tensor:
    return tf.reshape(slices, [slices.shape[0], -1, slices.shape[3]])


def _cut(mesh: ShardMeshImpl, line: tf.Tensor, margin: Margin) -> tf.Tensor:
    """Cuts the widened slices from a widened line."""
    firsts = np.arange(mesh.grid.local[margin.axis])[:, np.newaxis] * margin.size
    return tf.gather(line, firsts + np.arange(margin.before + margin.size + margin.after), axis=1)


def _add(slices: tf.Tensor, margin: Margin) -> tf.Tensor:
    """Adds overlapping widened slices to a widened line; the adjoint of `_cut`.

    Voxel i of the line is voxel `i - k size` of slice k. Its values are gathered from every slice that contains it,
    with zeros for the other slices, and added.
    """
    number, width = slices.shape[1:3]
    length = (number - 1) * margin.size + width
    holders = min(number, -(-width // margin.size))
    # The last slice that contains each voxel.
    last = np.minimum(np.arange(length) // margin.size, number - 1)[:, np.newaxis]
    slice_number = last - np.arange(holders)
    at = np.arange(length)[:, np.newaxis] - slice_number * margin.size
    rows = np.where((slice_number >= 0) & (at < width), slice_number * width + at, number * width)
    padded = tf.pad(_line(slices), [[0, 0], [0, 1], [0, 0]])
    return tf.reduce_sum(tf.gather(padded, rows, axis=1), axis=2)
