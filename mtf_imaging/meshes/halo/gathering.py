"""Halos of processors that share a device: one gather copies all widened slices out of the stack.

A row is the contiguous memory behind the last gathered dimension. The gather copies each row of each widened slice from
the slice that contains it. Rows beyond the border of the whole tensor are copied from one additional row of `fill`.
TensorFlow's CPU kernel takes as long for the gather as for padding the stack. Writing margins into the padded stack
took another three times as long.

For a single convolution, a `tf.gather_nd` followed by a pad is faster, because TensorFlow (2.21) fuses the pad into the
convolution. In a training step, the gradient of the filter reads the same pad. TensorFlow's optimizer then fails, and
no operation of the graph is fused.
"""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.meshes.halo.margin import Margin
from mtf_imaging.meshes.local import constant
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

_ROW = 48  # minimum bytes of a row; for shorter rows, the indices would take a large share of the time


def reach(mesh: ShardMeshImpl, stack: tf.Tensor, margins: Sequence[Margin]) -> int:
    """Returns the number of gathered slice dimensions: up to the last split dimension with long enough rows."""
    ends = [0]
    for m in margins:
        row = math.prod(stack.shape[m.dim + 2 :]) * stack.dtype.size
        if _is_local(mesh, m) and mesh.shape[m.mesh_axis].size > 1 and row >= _ROW:
            ends.append(m.dim + 1)
    return max(ends)


def is_gathered(mesh: ShardMeshImpl, margin: Margin, reached: int) -> bool:
    """Returns whether `gather` fills a margin with voxels of neighbors; it pads all other margins."""
    return margin.dim < reached and _is_local(mesh, margin)


def gather(mesh: ShardMeshImpl, stack: tf.Tensor, margins: Sequence[Margin], reached: int, fill: float) -> tf.Tensor:
    """Widens a stack by margins; margins that are not `is_gathered` are padded with `fill`.

    Args:
      mesh: a `ShardMeshImpl`.
      stack: Tensor[processors, slice...]
      margins: a `Margin` for each dimension to widen.
      reached: the result of `reach`.
      fill: a number.
    """
    shape = stack.shape.as_list()
    behind = shape[1 + reached :]
    pads = [[0, 1]] + [[0, 0] for _ in behind]  # one additional row
    for m in margins:
        if m.dim >= reached:
            pads[m.dim - reached + 1] = [m.before, m.after]
    rows = tf.pad(tf.reshape(stack, [-1, *behind]), pads, constant_values=constant(fill, stack.dtype))
    return tf.gather(rows, _rows(mesh, shape[: 1 + reached], [m for m in margins if m.dim < reached]))


def _is_local(mesh: ShardMeshImpl, margin: Margin) -> bool:
    return margin.mesh_axis is not None and mesh.grid.shards[margin.mesh_axis] == 1


def _rows(mesh: ShardMeshImpl, shape: Sequence[int], margins: Sequence[Margin]) -> tf.Tensor:
    """Returns the index of the source row of each widened row: Tensor[processors, widened dimensions...].

    The indices are a sum of one table per dimension, indexed by processor and position. Only these small tables are
    constants in the graph.
    """
    local = mesh.grid.local
    coordinates = np.indices(local).reshape(len(local), -1)  # local coordinates of each processor of the stack
    num_rows, by_dim = math.prod(shape), {m.dim: m for m in margins}
    first_rows = np.arange(shape[0])[(slice(None), *[np.newaxis] * (len(shape) - 1))] * math.prod(shape[1:])
    index = tf.constant(first_rows, tf.int64)
    for dim, size in enumerate(shape[1:]):
        m, stride = by_dim.get(dim), math.prod(shape[dim + 2 :])
        if m is None:
            table = np.arange(size)[np.newaxis] * stride
        else:
            gathered = _is_local(mesh, m)
            own = coordinates[m.axis][:, np.newaxis] if gathered else np.zeros([1, 1], np.int64)
            parts = local[m.axis] if gathered else 1
            at = own * size + np.arange(-m.before, size + m.after)
            step = math.prod(local[m.axis + 1 :]) if gathered else 0  # distance in the stack to the next processor
            table = (at // size - own) * step * math.prod(shape[1:]) + at % size * stride
            # Each other table adds an offset within the stack, so the sum reaches num_rows only beyond the border.
            table = np.where((at < 0) | (at >= parts * size), num_rows, table)
        axes = [slice(None) if d == dim else np.newaxis for d in range(len(shape) - 1)]
        index = index + tf.constant(table[(slice(None), *axes)], tf.int64)
    return tf.minimum(index, num_rows)
