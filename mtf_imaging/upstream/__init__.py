"""Operations of mesh_tensorflow that version 0.1.21 lowers wrongly, only sometimes, or not at all, lowered here.

`LOWERINGS` is the table: the class of the operation and the function that lowers it. All other operations,
mesh_tensorflow's and those of `mtf_imaging.ops`, lower themselves. `EXCHANGES` says what they exchange.
"""

from mtf_imaging.compat import mtf
from mtf_imaging.upstream import corrections, depend, reshape, shift, slicewise, top_k, while_loop, whole
from mtf_imaging.upstream.faults import layout_faults
from mtf_imaging.upstream.reads import inner_operations, needed, reads

__all__ = ["EXCHANGES", "LOWERINGS", "inner_operations", "layout_faults", "needed", "reads"]

LOWERINGS = {
    mtf.ReshapeOperation: reshape.lower,
    mtf.SlicewiseOperation: slicewise.lower,
    mtf.GenericGradOperation: slicewise.lower_gradient,
    mtf.Depend: depend.lower,
    mtf.WhileLoopOperation: while_loop.lower,
    **dict.fromkeys(whole.OPERATIONS, whole.lower),
}
EXCHANGES = {
    mtf.ReshapeOperation: reshape.exchanges,
    mtf.GenericGradOperation: slicewise.gradient_exchanges,
    mtf.ShiftOperation: shift.exchanges,
    mtf.TopKOperation: top_k.exchanges,
    **dict.fromkeys(whole.OPERATIONS - {mtf.TopKOperation}, whole.exchanges),
}

corrections.apply()
