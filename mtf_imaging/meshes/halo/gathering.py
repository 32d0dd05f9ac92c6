"""Halos of processors that share a device: every widened slice is gathered out of their stack at once.

A row is what lies together in memory behind the last dimension that is gathered. One gather copies each row of each
widened slice from whichever slice holds it; a row beyond the border of the whole tensor is one more row, of `fill`.
(TensorFlow's CPU takes as long for it as for padding the stack; to write margins into the padded stack took three times
as long again.)
"""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.meshes.halo.margin import Margin
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

_ROW = 48  # bytes; of shorter rows, indices would be a good part of the work


def reach(mesh: ShardMeshImpl, stack: tf.Tensor, margins: Sequence[Margin]) -> int:
    """The number of dimensions of the slices that are gathered: up to the last split one whose rows are long enough."""
    ends = [0]
    for m in margins:
        row = math.prod(stack.shape[m.dim + 2 :]) * stack.dtype.size
        if _is_local(mesh, m) and mesh.shape[m.mesh_axis].size > 1 and row >= _ROW:
            ends.append(m.dim + 1)
    return max(ends)


def is_gathered(mesh: ShardMeshImpl, margin: Margin, reached: int) -> bool:
    """Whether `gather` fills the margin with neighbors' voxels; any other one it pads."""
    return margin.dim < reached and _is_local(mesh, margin)


def gather(mesh: ShardMeshImpl, stack: tf.Tensor, margins: Sequence[Margin], reached: int, fill: float) -> tf.Tensor:
    """A stack widened by margins, of which those that are not `is_gathered` hold `fill`.

    Args:
      mesh: a `ShardMeshImpl`.
      stack: Tensor[processors, slice...]
      margins: a `Margin` for each dimension that is widened.
      reached: what `reach` says.
      fill: a number.
    """
    shape = stack.shape.as_list()
    behind = shape[1 + reached :]
    pads = [[0, 1]] + [[0, 0] for _ in behind]  # one more row
    for m in margins:
        if m.dim >= reached:
            pads[m.dim - reached + 1] = [m.before, m.after]
    rows = tf.pad(tf.reshape(stack, [-1, *behind]), pads, constant_values=tf.cast(fill, stack.dtype))
    return tf.gather(rows, _rows(mesh, shape[: 1 + reached], [m for m in margins if m.dim < reached]))


def _is_local(mesh: ShardMeshImpl, margin: Margin) -> bool:
    return margin.mesh_axis is not None and mesh.grid.shards[margin.mesh_axis] == 1


def _rows(mesh: ShardMeshImpl, shape: Sequence[int], margins: Sequence[Margin]) -> tf.Tensor:
    """Tensor[processors, widened dimensions...]: the row of a stack that each row of the widened one is.

    It is a sum of a table for each dimension, by processor and position: of these alone the graph holds constants.
    """
    local = mesh.grid.local
    coordinates = np.indices(local).reshape(len(local), -1)  # of each processor of the stack
    num_rows, by_dim = math.prod(shape), {m.dim: m for m in margins}
    found = np.arange(shape[0])[(slice(None), *[np.newaxis] * (len(shape) - 1))] * math.prod(shape[1:])
    found = tf.constant(found, tf.int64)
    for dim, size in enumerate(shape[1:]):
        m, stride = by_dim.get(dim), math.prod(shape[dim + 2 :])
        if m is None:
            table = np.arange(size)[np.newaxis] * stride
        else:
            gathered = _is_local(mesh, m)
            own = coordinates[m.axis][:, np.newaxis] if gathered else np.zeros([1, 1], np.int64)
            parts = local[m.axis] if gathered else 1
            at = own * size + np.arange(-m.before, size + m.after)
            step = math.prod(local[m.axis + 1 :]) if gathered else 0  # from a processor to the next, in the stack
            table = (at // size - own) * step * math.prod(shape[1:]) + at % size * stride
            # The other tables lead to a row of the stack, so the sum is num_rows or more exactly beyond the border.
            table = np.where((at < 0) | (at >= parts * size), num_rows, table)
        axes = [slice(None) if d == dim else np.newaxis for d in range(len(shape) - 1)]
        found = found + tf.constant(table[(slice(None), *axes)], tf.int64)
    return tf.minimum(found, num_rows)
