"""Lowers reductions, `mtf.einsum` and `mtf.Print`; the tails of uneven slices get neutral values first."""

from mtf_imaging.compat import mtf, printed_tensors, reduction_kind


def lower_reduction(op: mtf.ReduceOperation, lowering: mtf.Lowering) -> None:
    """Lowers a sum, a maximum or a minimum over dimensions."""
    (x,), (y,) = op.inputs, op.outputs
    fill = {"SUM": 0, "MAX": x.dtype.min, "MIN": x.dtype.max}[reduction_kind(op)]
    stored = lowering.tensors[x]
    masked = lowering.masked(x, _missing(x, y), fill)
    if fill != 0 and masked is not stored:
        lowering.tensors[x] = masked
    type(op).lower(op, lowering)
    if fill != 0:
        lowering.tensors[x] = stored


def lower_einsum(op: mtf.EinsumOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.EinsumOperation`; a product of tails is 0, because both factors are."""
    (y,) = op.outputs
    for x in op.inputs:
        lowering.masked(x, _missing(x, y))
    type(op).lower(op, lowering)


def lower_print(op: mtf.PrintOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.PrintOperation`, which prints tails as 0."""
    for x in printed_tensors(op):
        lowering.masked(x)
    type(op).lower(op, lowering)


def _missing(x: mtf.Tensor, y: mtf.Tensor) -> list[str]:
    """Returns the names of the dimensions that a result lacks."""
    return [dim.name for dim in x.shape.dims if dim not in y.shape.dims]
