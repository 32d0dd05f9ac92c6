"""Lowers operations that mesh_tensorflow 0.1.21 lowers incorrectly, only under some layouts or not at all.

`LOWERINGS` maps the class of an operation to the function that lowers it. It contains `mtf.assign` as well, whose own
lowering adds nodes that do nothing. All other operations, including those of `mtf_imaging.ops`, have their own method
`lower`. `EXCHANGES` maps the class of an operation to the function that returns its exchanges.
"""

from mtf_imaging.compat import mtf
from mtf_imaging.upstream import (
    assign,
    combining,
    corrections,
    depend,
    operands,
    reshape,
    shift,
    slicewise,
    tensors,
    top_k,
    while_loop,
    whole,
)
from mtf_imaging.upstream.faults import layout_faults
from mtf_imaging.upstream.reads import inner_operations, needed, reads

__all__ = ["EXCHANGES", "LOWERINGS", "inner_operations", "layout_faults", "needed", "reads"]

LOWERINGS = {
    mtf.Assign: assign.lower,
    mtf.ReshapeOperation: reshape.lower,
    mtf.SlicewiseOperation: slicewise.lower,
    mtf.GenericGradOperation: slicewise.lower_gradient,
    mtf.Depend: depend.lower,
    mtf.EinsumOperation: combining.lower_einsum,
    mtf.PrintOperation: combining.lower_print,
    mtf.ReduceOperation: combining.lower_reduction,
    mtf.WhileLoopOperation: while_loop.lower,
    **dict.fromkeys(whole.OPERATIONS, whole.lower),
}
EXCHANGES = {
    mtf.ReshapeOperation: reshape.exchanges,
    mtf.GenericGradOperation: slicewise.gradient_exchanges,
    mtf.ShiftOperation: shift.exchanges,
    mtf.TopKOperation: top_k.exchanges,
    **dict.fromkeys(whole.OPERATIONS - {mtf.ShiftOperation, mtf.TopKOperation}, whole.exchanges),
}

for module in (corrections, operands, tensors):
    module.apply()
