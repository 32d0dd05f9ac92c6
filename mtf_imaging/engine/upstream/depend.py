"""Lowers `mtf.depend`, even if no output needs its dependencies."""

import tensorflow as tf

from mtf_imaging.engine.compat import dependencies, mtf


def lower(op: mtf.Depend, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.Depend`, which returns its input after all dependencies have been computed.

    Assignments still run after all reads, even if an operation depends on them.
    """
    (x,), (y,) = op.inputs, op.outputs
    earlier = [stack for t in dependencies(op) for stack in lowering.tensors[t].to_laid_out_tensor().tensor_list]
    with tf.control_dependencies(earlier):
        value = lowering.mesh_impl(op).map_stacks(tf.identity, lowering.tensors[x].to_laid_out_tensor())
    lowering.set_tensor_lowering(y, value)
