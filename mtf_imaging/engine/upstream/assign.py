"""Lowers `mtf.assign` without adding nodes, because the program assigns all values after all reads."""

from mtf_imaging.engine import compat
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.reads import depends_on
from mtf_imaging.errors import NotSupportedError


def lower(op: mtf.Assign, lowering: mtf.Lowering) -> None:
    """Records the assignments of an `mtf.Assign`.

    Raises:
      NotSupportedError: it replaces a variable that was assigned before by a value computed from that variable.
    """
    for variable, value in zip(compat.assigned_variables(op), op.inputs, strict=True):
        laid_out = lowering.variables[variable]
        if laid_out.is_assigned and op.assign_fn is mtf.assign_slice and depends_on(value, variable.value):
            raise NotSupportedError(
                f"variable '{variable.name}' is assigned several times per call, and a later mtf.assign computes its "
                "new value from the value before the call, which drops the earlier assignments. Fix: assign it once, "
                "use mtf.assign_add or mtf.assign_sub, or pass an assign_fn to mtf.assign, which gets the current "
                "value."
            )
        laid_out.assign(op.assign_fn, lowering.tensors[value].to_laid_out_tensor())
