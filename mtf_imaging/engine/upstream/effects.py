"""Lowers operations that matter for their effects: assignments, prints and dependencies."""

import tensorflow as tf

from mtf_imaging.engine.compat import assigned_variables, dependencies, mtf, printed_tensors
from mtf_imaging.engine.reads import depends_on
from mtf_imaging.errors import NotSupportedError


def lower_assign(op: mtf.Assign, lowering: mtf.Lowering) -> None:
    """Records the assignments of an `mtf.Assign` without adding nodes: the program makes them after all reads.

    Raises:
      NotSupportedError: it replaces a variable that was assigned before by a value computed from that variable.
    """
    for variable, value in zip(assigned_variables(op), op.inputs, strict=True):
        laid_out = lowering.variables[variable]
        if laid_out.is_assigned and op.assign_fn is mtf.assign_slice and depends_on(value, variable.value):
            raise NotSupportedError(
                f"variable '{variable.name}' is assigned several times per call, and a later mtf.assign computes its "
                "new value from the value before the call, which drops the earlier assignments. Fix: assign it once, "
                "use mtf.assign_add or mtf.assign_sub, or pass an assign_fn to mtf.assign, which gets the current "
                "value."
            )
        laid_out.assign(op.assign_fn, lowering.tensors[value].to_laid_out_tensor())


def lower_depend(op: mtf.Depend, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.Depend`, which returns its input after all dependencies, even if no output needs them.

    Assignments still run after all reads, even if an operation depends on them.
    """
    (x,), (y,) = op.inputs, op.outputs
    earlier = [stack for t in dependencies(op) for stack in lowering.tensors[t].to_laid_out_tensor().tensor_list]
    with tf.control_dependencies(earlier):
        value = lowering.mesh_impl(op).map_stacks(tf.identity, lowering.tensors[x].to_laid_out_tensor())
    lowering.set_tensor_lowering(y, value)


def lower_print(op: mtf.PrintOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.PrintOperation`, which prints the tails of uneven slices as 0."""
    for x in printed_tensors(op):
        lowering.masked(x)
    type(op).lower(op, lowering)
