"""The exchanges of `mtf.shift` along a split dimension."""

import math

from mtf_imaging.engine.compat import mtf, shift_arguments
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.upstream import whole


def exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of an `mtf.ShiftOperation`, as `Round`s: one or two pieces of each slice."""
    (x,) = op.inputs
    dim, offset, wrap = shift_arguments(op)
    if whole.is_needed(op, mesh):
        return whole.exchanges(op, mesh)
    (axis,) = mesh.split_axes(mtf.Shape([dim]))
    if axis is None or (not wrap and abs(offset) >= dim.size):
        return []
    parts = mesh.shape[axis].size
    length = dim.size // parts
    hops, rest = divmod(offset, length)
    line = math.prod(mesh.slice_shape(x.shape)) // length * x.dtype.size
    messages = []
    for hop, width in [(hops, length - rest), (hops + 1, rest)]:
        sources = {to: (to - hop) % parts if wrap else to - hop for to in range(parts)}
        distances = {to - source for to, source in sources.items() if 0 <= source < parts} - {0}
        messages += [Exchange("halo", (axis,), width * line, distance) for distance in sorted(distances) if width]
    return [Round(messages)] if messages else []
