"""Variables of a mesh: a whole master each, read once a call, assigned to after all reads."""

import tensorflow as tf

from mtf_imaging.meshes import local
from mtf_imaging.meshes.laid_out import LaidOutTensor


class LaidOutVariable:
    """The slices of a variable for one call of the program.

    There are no variables of slices: the master is the only copy between calls, so it cannot go out of step, and a
    checkpoint knows no layout.
    """

    def __init__(self, variable, mesh_impl):
        self._variable = variable
        self._mesh = mesh_impl
        self._shape = variable.outputs[0].shape
        self._split = mesh_impl.split_axes(self._shape)
        master = variable.get_master()
        self.read = master.read()
        stacks = []
        for block, device in zip(mesh_impl.grid.block_coordinates(), mesh_impl.devices):
            with tf.device(master.device):  # or whole weights would pass through the process that runs the program
                piece = local.cut(tf.cast(self.read, variable.slice_dtype), self._split, mesh_impl.grid, block)
            with tf.device(device):
                stacks.append(tf.identity(piece))
        self.laid_out_tensor = LaidOutTensor(stacks)

    # Masters and slices never differ: nothing to copy.
    copy_master_to_slices = copy_slices_to_master = property(lambda self: tf.no_op())

    def assign_to_slices(self, assign_fn, values):
        """Notes an assignment, which the program makes when every variable has been read.

        Args:
          assign_fn: from (mtf.Variable, tf.Variable, tf.Tensor) to a tf.Operation.
          values: stacks of the new value, one a block.
        """
        laid_out = self._mesh.canonical(LaidOutTensor(values), self._shape)
        with tf.device(self._variable.get_master().device):
            whole = local.join(laid_out.tensor_list, self._split, self._mesh.grid)
        self._mesh.assignments.append((self._variable, assign_fn, whole))
        return tf.no_op()
