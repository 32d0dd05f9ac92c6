"""Variables of a mesh: one unsplit master copy per variable, read once per call and assigned after all reads."""

from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import whole
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.shards import Shards


class LaidOutVariable:
    """The slices of a variable during one call to the program.

    Slices are not variables. Between calls the master is the only copy, so copies cannot diverge, and a checkpoint does
    not depend on the layout.

    Attributes:
      is_assigned: whether the call assigns to the variable.
    """

    is_assigned = False

    def __init__(self, variable: mtf.Variable, mesh_impl: Shards) -> None:
        self._variable = variable
        self._mesh = mesh_impl
        self._shape = variable.outputs[0].shape
        self._split = mesh_impl.split_axes(self._shape)
        master = variable.get_master()
        self.read = master.read()
        with tf.device(master.device):
            value = tf.cast(self.read, variable.slice_dtype)
        stacks = whole.scatter(value, self._split, mesh_impl.transport, master.device)
        self.laid_out_tensor = LaidOutTensor(stacks)

    # Masters and slices never differ, so there is nothing to copy.
    copy_master_to_slices = copy_slices_to_master = property(lambda self: tf.no_op())

    def assign(self, assign_fn: Callable[..., tf.Operation], value: LaidOutTensor) -> None:
        """Records an assignment, which the program runs after all variables have been read.

        Args:
          assign_fn: a function from (mtf.Variable, tf.Variable, tf.Tensor) to a tf.Operation.
          value: the new value.
        """
        self.is_assigned = True
        stacks = self._mesh.canonical(value, self._shape).tensor_list
        home = self._variable.get_master().device
        sizes = self._shape.to_integer_list
        whole_value = whole.gather(stacks, self._split, sizes, self._mesh.transport, home)
        self._mesh.assignments.append((self._variable, assign_fn, whole_value))
