"""The exchanges of `mtf.shift` along a split dimension."""

import math

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.exchange import Exchange, Round


def exchanges(op, mesh):
    """Returns the exchanges of an `mtf.ShiftOperation`, as `Round`s: one or two pieces of each slice."""
    (x,) = op.inputs
    (axis,) = mesh.split_axes(mtf.Shape([op._dim]))
    if axis is None or (not op._wrap and abs(op._offset) >= op._dim.size):
        return []
    parts = mesh.shape[axis].size
    length = op._dim.size // parts
    hops, rest = divmod(op._offset, length)
    line = math.prod(mesh.slice_shape(x.shape)) // length * x.dtype.size
    found = []
    for hop, width in [(hops, length - rest), (hops + 1, rest)]:
        sources = {to: (to - hop) % parts if op._wrap else to - hop for to in range(parts)}
        distances = {to - source for to, source in sources.items() if 0 <= source < parts} - {0}
        found += [Exchange("halo", (axis,), width * line, distance) for distance in sorted(distances) if width]
    return [Round(found)] if found else []
