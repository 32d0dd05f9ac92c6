"""Lowers operations that mesh_tensorflow 0.1.21 lowers incorrectly, only under some layouts or not at all.

`LOWERINGS` maps an operation class to the function that lowers it. It also contains `mtf.assign`, whose own lowering
adds nodes that do nothing. All other operations, including `mtf_imaging.engine.ops`, have their own `lower` method.
`EXCHANGES` maps an operation class to the function that returns its exchanges.
"""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.reads import inner_operations, needed, reads
from mtf_imaging.engine.upstream import (
    broadcasting,
    corrections,
    effects,
    names,
    operands,
    ranges,
    reshape,
    selections,
    shift,
    slicewise,
    tensors,
    top_k,
    while_loop,
    whole,
)
from mtf_imaging.engine.upstream.faults import layout_faults

__all__ = ["COMBINING", "EXCHANGES", "LOWERINGS", "inner_operations", "layout_faults", "needed", "reads"]

LOWERINGS = {
    mtf.Assign: effects.lower_assign,
    mtf.ReshapeOperation: reshape.lower,
    mtf.SlicewiseOperation: slicewise.lower,
    mtf.GenericGradOperation: slicewise.lower_gradient,
    mtf.Depend: effects.lower_depend,
    mtf.AddOperation: broadcasting.lower_binary,
    mtf.BinaryOpWithBroadcasting: broadcasting.lower_binary,
    mtf.BroadcastOperation: broadcasting.lower_broadcast,
    mtf.EinsumOperation: broadcasting.lower_einsum,
    mtf.MinMaxOperation: broadcasting.lower_binary,
    mtf.PrintOperation: effects.lower_print,
    mtf.RangeOperation: ranges.lower,
    mtf.ReduceOperation: broadcasting.lower_reduction,
    mtf.ScalarAddOperation: broadcasting.lower_scalar,
    mtf.ScalarMultiplyOperation: broadcasting.lower_scalar,
    mtf.TopKOperation: top_k.lower,
    mtf.WhileLoopOperation: while_loop.lower,
    **dict.fromkeys(whole.OPERATIONS, whole.lower),
}
EXCHANGES = {
    mtf.ReshapeOperation: reshape.exchanges,
    mtf.GenericGradOperation: slicewise.gradient_exchanges,
    mtf.ShiftOperation: shift.exchanges,
    mtf.TopKOperation: top_k.exchanges,
    **dict.fromkeys(whole.OPERATIONS - {mtf.ShiftOperation}, whole.exchanges),
}
# The inputs that an operation gathers along a split dimension, and the mesh axes.
GATHERS = {mtf.ReshapeOperation: reshape.gathers, **dict.fromkeys(whole.OPERATIONS, whole.gathers)}

# Operations that combine every element of one input with elements of another.
COMBINING = (mtf.EinsumOperation, selections.Gather, selections.Scatter)

for module in (corrections, names, operands, selections, tensors, top_k, while_loop):
    module.apply()
