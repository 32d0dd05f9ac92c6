"""Variables of a mesh: a whole master each, read once a call, assigned to after all reads."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.meshes import whole
from mtf_imaging.meshes.laid_out import LaidOutTensor

if TYPE_CHECKING:
    from mtf_imaging.meshes.mesh_impl import ShardMeshImpl


class LaidOutVariable:
    """The slices of a variable for one call of the program.

    There are no variables of slices: the master is the only copy between calls, so it cannot go out of step, and a
    checkpoint knows no layout.
    """

    def __init__(self, variable: mtf.Variable, mesh_impl: "ShardMeshImpl") -> None:
        self._variable = variable
        self._mesh = mesh_impl
        self._shape = variable.outputs[0].shape
        self._split = mesh_impl.split_axes(self._shape)
        master = variable.get_master()
        self.read = master.read()
        with tf.device(master.device):
            value = tf.cast(self.read, variable.slice_dtype)
        stacks = whole.scatter(value, self._split, mesh_impl.grid, mesh_impl.devices, master.device)
        self.laid_out_tensor = LaidOutTensor(stacks)

    # Masters and slices never differ: nothing to copy.
    copy_master_to_slices = copy_slices_to_master = property(lambda self: tf.no_op())

    def assign_to_slices(self, assign_fn: Callable[..., tf.Operation], values: Sequence[tf.Tensor]) -> tf.Operation:
        """Notes an assignment, which the program makes when every variable has been read.

        Args:
          assign_fn: from (mtf.Variable, tf.Variable, tf.Tensor) to a tf.Operation.
          values: stacks of the new value, one a shard.
        """
        laid_out = self._mesh.canonical(LaidOutTensor(values), self._shape)
        home = self._variable.get_master().device
        value = whole.gather(laid_out.tensor_list, self._split, self._mesh.grid, self._mesh.devices, home)
        self._mesh.assignments.append((self._variable, assign_fn, value))
        return tf.no_op()
