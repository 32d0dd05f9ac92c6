"""Halos of processors that share a device: one gather copies all widened slices out of the stack.

A row is the contiguous memory of the dimensions after the last gathered one. The gather copies each row of each widened
slice from the slice that contains it. Rows beyond the border of the whole tensor are copied from one additional row of
`fill`. TensorFlow's CPU kernel takes as long for the gather as for padding the stack. Writing margins into the padded
stack took another three times as long.

For a single convolution, a `tf.gather_nd` followed by a pad is faster, because TensorFlow (2.21) fuses the pad into the
convolution. In a training step, the gradient of the filter reads the same pad. TensorFlow's optimizer then fails, and
no operation of the graph is fused.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.halo.steps import Step
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import constant
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

_ROW = 48  # minimum bytes of a row; for shorter rows, the indices would take a large share of the time


def gathered_margins(
    grid: ShardGrid, margins: Sequence[Margin], slice_shape: Sequence[int], itemsize: int
) -> tuple[Margin, ...]:
    """Returns the margins that `Gather` fills: those within a device, up to the last dimension with long rows."""
    local = [m for m in margins if m.mesh_axis is not None and grid.shards[m.axis] == 1]
    local = [m for m in local if not grid.is_in_turns(m.axis)]
    long = [m.dim for m in local if grid.mesh[m.axis] > 1 and math.prod(slice_shape[m.dim + 1 :]) * itemsize >= _ROW]
    return tuple(m for m in local if m.dim <= max(long, default=-1))


@dataclasses.dataclass(frozen=True)
class Gather(Step):
    """Gathers widened slices from the stack.

    Attributes:
      gathered: the margins that the gather fills with voxels of neighbors.
      padded: the other margins, which it fills with `fill`.
    """

    gathered: tuple[Margin, ...]
    padded: tuple[Margin, ...]

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        return mesh.map_stacks(lambda stack: self._widened(stack, mesh.grid.local, fill), x)

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        raise NotImplementedError("the adjoint of a gather would scatter. Fix: plan the adjoint without gathers.")

    def _widened(self, stack: tf.Tensor, local: Sequence[int], fill: float) -> tf.Tensor:
        shape, num_dims = stack.shape.as_list(), 1 + max(m.dim for m in self.gathered)
        behind = shape[1 + num_dims :]
        pads = [[0, 1]] + [[0, 0] for _ in behind]  # one additional row
        for m in self.padded:
            if m.dim >= num_dims:
                pads[m.dim - num_dims + 1] = [m.before, m.after]
        rows = tf.pad(tf.reshape(stack, [-1, *behind]), pads, constant_values=constant(fill, stack.dtype))
        return tf.gather(rows, self.rows(shape[: 1 + num_dims], local))

    def rows(self, shape: Sequence[int], local: Sequence[int]) -> tf.Tensor:
        """Returns the index of the source row of each widened row: Tensor[processors, widened dimensions...].

        The indices are a sum of one table per dimension, indexed by processor and position. Only these small tables are
        constants in the graph.

        Args:
          shape: shape of the stack, without the dimensions of a row.
          local: number of processors in the stack along each mesh dimension.
        """
        coordinates = np.indices(local).reshape(len(local), -1)  # local coordinates of each processor in the stack
        num_rows, by_dim = math.prod(shape), {m.dim: m for m in self.gathered + self.padded}
        first_rows = np.arange(shape[0])[(slice(None), *[np.newaxis] * (len(shape) - 1))] * math.prod(shape[1:])
        index = tf.constant(first_rows, tf.int64)
        for dim, size in enumerate(shape[1:]):
            m, stride = by_dim.get(dim), math.prod(shape[dim + 2 :])
            if m is None:
                table = np.arange(size)[np.newaxis] * stride
            else:
                is_gathered = m in self.gathered
                own = coordinates[m.axis][:, np.newaxis] if is_gathered else np.zeros([1, 1], np.int64)
                parts = local[m.axis] if is_gathered else 1
                at = own * size + np.arange(-m.before, size + m.after)
                step = math.prod(local[m.axis + 1 :]) if is_gathered else 0  # distance in the stack to the next slice
                table = (at // size - own) * step * math.prod(shape[1:]) + at % size * stride
                # All other tables add an offset within the stack, so the sum reaches num_rows only beyond the border.
                table = np.where((at < 0) | (at >= parts * size), num_rows, table)
            axes = [slice(None) if d == dim else np.newaxis for d in range(len(shape) - 1)]
            index = index + tf.constant(table[(slice(None), *axes)], tf.int64)
        return tf.minimum(index, num_rows)
