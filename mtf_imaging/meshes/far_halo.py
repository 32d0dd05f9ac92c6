"""Halos that reach past the next slice: what one device needs of another is sent at once.

A line is what a block holds along one dimension: its slices, one after the other. A block receives one piece of the
line of every block that its halo reaches, and cuts its widened slices, which overlap, from the widened line. Slice by
slice, the graph would hold a message for every slice that the halo of a block reaches.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.meshes.laid_out import LaidOutTensor


class _Message(NamedTuple):
    """Voxels of one block's line that another block's widened line holds (or the same block's).

    Attributes:
      source: number of the block that owns the voxels.
      target: number of the block that needs them.
      voxels: how many.
      read: where they begin in the source's line.
      write: where they begin in the target's widened line.
    """

    source: int
    target: int
    voxels: int
    read: int
    write: int


def _messages(mesh, margin):
    """Yields every `_Message`, for each target in the order of the voxels."""
    length = mesh.grid.local[margin.mesh_axis] * margin.size
    for group in mesh.grid.groups([margin.mesh_axis]):
        for to, target in enumerate(group):
            first, last = to * length - margin.before, (to + 1) * length + margin.after
            for at, source in enumerate(group):
                begin, end = max(first, at * length), min(last, (at + 1) * length)
                if begin < end:
                    yield _Message(source, target, end - begin, begin - at * length, begin - first)


def widen(mesh, x, margin, fill):
    """Widens every slice of a laid-out tensor by one margin; voxels beyond the border of the whole tensor are `fill`.

    Args:
      mesh: a `BlockMeshImpl`.
      x: a laid-out tensor.
      margin: a `Margin` of a dimension that is split.
      fill: a number.
    """
    lines = mesh.map_stacks(lambda stack: _line(_by_slice(mesh, stack, margin)), x).tensor_list
    pieces, ends = [[] for _ in lines], [[0, 0] for _ in lines]
    for message in _messages(mesh, margin):
        if not pieces[message.target]:
            ends[message.target][0] = message.write
        ends[message.target][1] = message.write + message.voxels
        with tf.device(mesh.devices[message.source]):
            pieces[message.target].append(_part(lines[message.source], message.read, message.voxels))
    width, stacks = lines[0].shape[1] + margin.before + margin.after, []
    for block, device in enumerate(mesh.devices):
        with tf.device(device):
            line = tf.concat(pieces[block], 1)
            before, after = ends[block][0], width - ends[block][1]
            if before or after:
                line = tf.pad(line, [[0, 0], [before, after], [0, 0]], constant_values=tf.cast(fill, line.dtype))
            stacks.append(_stack(mesh, _cut(mesh, line, margin), margin, x.slice_shape))
    return LaidOutTensor(stacks)


def narrow(mesh, dx, margin):
    """The adjoint of `widen`: adds what margins received to the voxels that they came from."""
    lines = mesh.map_stacks(lambda stack: _add(_by_slice(mesh, stack, margin), margin), dx).tensor_list
    length, received = mesh.grid.local[margin.mesh_axis] * margin.size, [[] for _ in lines]
    for message in _messages(mesh, margin):
        with tf.device(mesh.devices[message.target]):
            part = _part(lines[message.target], message.write, message.voxels)
        received[message.source].append((part, [message.read, length - message.read - message.voxels]))
    stacks = []
    for parts, device in zip(received, mesh.devices):
        with tf.device(device):
            total = tf.add_n([tf.pad(part, [[0, 0], pads, [0, 0]]) if any(pads) else part for part, pads in parts])
            slices = tf.reshape(total, [total.shape[0], -1, margin.size, total.shape[2]])
            stacks.append(_stack(mesh, slices, margin, dx.slice_shape))
    return LaidOutTensor(stacks)


def _part(line, begin, voxels):
    return line if voxels == line.shape[1] else tf.slice(line, [0, begin, 0], [-1, voxels, -1])


def _by_slice(mesh, stack, margin):
    """A stack as `[others, slices of a line, voxels of a slice, inner]`."""
    local, axis, dim = mesh.grid.local, margin.mesh_axis, margin.dim
    outer, between = math.prod(local[:axis]), math.prod(local[axis + 1 :]) * math.prod(stack.shape[1 : dim + 1])
    shape = [outer, local[axis], between, stack.shape[dim + 1], math.prod(stack.shape[dim + 2 :])]
    view = tf.transpose(tf.reshape(stack, shape), [0, 2, 1, 3, 4])
    return tf.reshape(view, [outer * between, local[axis], *shape[3:]])


def _stack(mesh, slices, margin, slice_shape):
    """The stack of `[others, slices of a line, voxels of a slice, inner]`, the inverse of `_by_slice`."""
    local, axis, dim = mesh.grid.local, margin.mesh_axis, margin.dim
    outer, voxels = math.prod(local[:axis]), slices.shape[2]
    view = tf.reshape(slices, [outer, slices.shape[0] // outer, local[axis], voxels, slices.shape[3]])
    shape = [math.prod(local), *slice_shape[:dim], voxels, *slice_shape[dim + 1 :]]
    return tf.reshape(tf.transpose(view, [0, 2, 1, 3, 4]), shape)


def _line(slices):
    return tf.reshape(slices, [slices.shape[0], -1, slices.shape[3]])


def _places(mesh, margin):
    """Array[slices of a line, voxels of a widened slice] of the place of each voxel in the widened line."""
    width = margin.before + margin.size + margin.after
    return np.arange(mesh.grid.local[margin.mesh_axis])[:, np.newaxis] * margin.size + np.arange(width)


def _cut(mesh, line, margin):
    """The widened slices of a widened line."""
    return tf.gather(line, _places(mesh, margin), axis=1)


def _add(slices, margin):
    """The adjoint of `_cut`.

    Voxel i of the line is voxel `i - k size` of slice k: gathered for every slice that holds it (a row of zeros stands
    for those that do not), and added.
    """
    number, width = slices.shape[1:3]
    length = (number - 1) * margin.size + width
    holders = min(number, -(-width // margin.size))
    last = np.minimum(np.arange(length) // margin.size, number - 1)[:, np.newaxis]  # slice that holds a voxel
    slice_number = last - np.arange(holders)
    at = np.arange(length)[:, np.newaxis] - slice_number * margin.size
    rows = np.where((slice_number >= 0) & (at < width), slice_number * width + at, number * width)
    padded = tf.pad(_line(slices), [[0, 0], [0, 1], [0, 0]])
    return tf.reduce_sum(tf.gather(padded, rows, axis=1), axis=2)
