"""Lowers `mtf.Print`, which prints the tails of uneven slices as 0."""

from mtf_imaging.engine.compat import mtf, printed_tensors


def lower(op: mtf.PrintOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.PrintOperation`."""
    for x in printed_tensors(op):
        lowering.masked(x)
    type(op).lower(op, lowering)
