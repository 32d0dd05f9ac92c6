"""Lowers `mtf.assign` without adding nodes, because the program assigns all values after all reads."""

from mtf_imaging import compat
from mtf_imaging.compat import mtf


def lower(op: mtf.Assign, lowering: mtf.Lowering) -> None:
    """Records the assignments of an `mtf.Assign`."""
    for variable, value in zip(compat.assigned_variables(op), op.inputs, strict=True):
        lowering.variables[variable].assign(op.assign_fn, lowering.tensors[value].to_laid_out_tensor())
