"""What a device holds while a step runs: tensors from where they are made to where they are last read."""

import collections
import math
from collections.abc import Iterable
from typing import NamedTuple

from mtf_imaging import upstream
from mtf_imaging.compat import mtf
from mtf_imaging.meshes import ShardMeshImpl
from mtf_imaging.planner.cost.traffic import passed_on, rounds


class Peak(NamedTuple):
    """The moment at which a device holds most.

    Attributes:
      nbytes: of all tensors at that moment.
      at: the operation that is computed then.
      largest: (name, bytes) of the largest of them, largest first.
    """

    nbytes: int
    at: mtf.Operation
    largest: tuple[tuple[str, int], ...]


def peak(operations: Iterable[mtf.Operation], mesh: ShardMeshImpl, together: int = 1) -> Peak:
    """When a device holds most, if operations run one after the other and free what nobody reads any more.

    Beside tensors, it holds slices that are widened by a halo, for as long as some operation wants them so widened.
    What an operation writes may take the place of an input of its size that it alone still reads, if it computes
    element by element. Work space of kernels is not counted.

    Args:
      operations: in the order in which they run.
      mesh: what they would be lowered on; nothing is.
      together: processors that share a device: of what is split each holds its slice, of anything else there is one.
    """
    operations, same, needs = list(operations), {}, []
    last = {}
    for number, op in enumerate(operations):
        same.update({y: same.get(x, x) for y, x in passed_on(op).items()})
        reads = [same.get(x, x) for x in upstream.reads(op)]
        reads += [(same.get(once[0], once[0]), once[1]) for _, once, _ in rounds(op, mesh) if once is not None]
        needs.append(list(dict.fromkeys(reads)))
        for needed in needs[-1]:
            last[needed] = number
    ends = collections.defaultdict(list)
    for needed, number in last.items():
        ends[number].append(needed)

    held, total, found = {}, 0, Peak(0, None, ())
    for number, op in enumerate(operations):
        made = {y: _bytes(y.shape, y.dtype, mesh, together) for y in op.outputs if y not in same}
        made |= {w: _widened_bytes(w, mesh) * together for w in needs[number] if isinstance(w, tuple) and w not in held}
        now = total + sum(made.values()) - _reused(op, made, ends[number], held)
        if now > found.nbytes:
            largest = sorted((held | made).items(), key=lambda item: -item[1])
            found = Peak(now, op, tuple((_name(what), size) for what, size in largest[:8]))
        held |= made
        total += sum(made.values())
        for gone in [*ends[number], *(y for y in op.outputs if y not in last and y not in same)]:
            total -= held.pop(gone, 0)
    return found


def _bytes(shape, dtype, mesh, together):
    return math.prod(mesh.slice_shape(shape)) * dtype.size * (together if mesh.is_split(shape) else 1)


def _widened_bytes(widened, mesh):
    """Of a slice with its halo; nothing more than of the slice where no halo is added, for then it is the slice."""
    tensor, (geometry, kind) = widened
    margins = geometry.adjoint_margins(mesh) if kind == "adjoint" else geometry.margins(mesh)
    if not any(m.before or m.after for m in margins or []):
        return 0
    sizes = mesh.slice_shape(tensor.shape)
    for m in margins:
        sizes[m.dim] = m.before + m.size + m.after
    return math.prod(sizes) * tensor.dtype.size


def _reused(op, made, ending, held):
    """Bytes of an input that the output of an elementwise operation is written over."""
    if isinstance(op, mtf.SlicewiseOperation | mtf.BinaryOpWithBroadcasting):
        sizes = [held.get(x, 0) for x in op.inputs if x in ending]
        return min(max(sizes, default=0), sum(made.values()))
    return 0


def _name(what):
    return f"{what[0].name} with its halo" if isinstance(what, tuple) else what.name
