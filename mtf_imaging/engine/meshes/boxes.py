"""The parts of whole tensors that a process passes in and out of a program.

The region of a process is the part of a whole tensor that its slices cover. A box is a region that is extended at its
end to the same shape in all processes. If this process computes all shards, both are the whole tensor.
"""

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import whole
from mtf_imaging.engine.meshes.shards import Shards


class Boxes:
    """The regions and boxes of tensors with given shapes.

    Args:
      mesh: the mesh. A process passes the slices of all its turns at once.
    """

    def __init__(self, mesh: Shards) -> None:
        self._mesh, self._transport = mesh, mesh.transport.within_turn

    def shape(self, shape: mtf.Shape) -> list[int]:
        """Returns the shape of a box."""
        sizes = shape.to_integer_list
        if not self._transport.is_between_processes:
            return sizes
        return whole.box_shape(sizes, self._mesh.split_axes(shape), self._transport.grid)

    def region(self, shape: mtf.Shape) -> tuple[slice, ...]:
        """Returns the region of this process: a Python slice per dimension."""
        return whole.region(shape.to_integer_list, self._mesh.split_axes(shape), self._transport)

    def regions(self, shape: mtf.Shape) -> list[tuple[slice, ...]]:
        """Returns the region of each process, by process number."""
        return whole.regions(shape.to_integer_list, self._mesh.split_axes(shape), self._transport)

    def fill(self, part: tf.Tensor, shape: mtf.Shape) -> tf.Tensor:
        """Extends a region to a box."""
        return part if part.shape == (sizes := self.shape(shape)) else whole.fill_box(part, sizes)

    def clip(self, box: tf.Tensor, shape: mtf.Shape) -> tf.Tensor:
        """Cuts off the elements of a box beyond its region."""
        sizes = [part.stop - part.start for part in self.region(shape)]
        return box if box.shape == sizes else tf.slice(box, [0] * len(sizes), sizes)

    def gather(self, box: tf.Tensor, shape: mtf.Shape) -> tf.Tensor:
        """Gathers the boxes of all processes into the whole tensor, in every process."""
        mesh = self._mesh
        if not self._transport.is_between_processes or not mesh.is_split(shape):
            return box
        with tf.device(mesh.host):
            return whole.gather_box(box, mesh.split_axes(shape), shape.to_integer_list, self._transport)
