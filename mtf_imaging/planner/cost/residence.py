"""The peak memory of a step: each tensor exists from its creation to its last use."""

import collections
import math
from collections.abc import Iterable
from typing import NamedTuple

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import ShardMeshImpl
from mtf_imaging.engine.meshes.tails import tails_of
from mtf_imaging.engine.program.traffic import passed_on, rounds


class Peak(NamedTuple):
    """The moment at which a device holds the most bytes.

    Attributes:
      nbytes: bytes of all tensors at that moment.
      at: the operation that runs at that moment.
      largest: (name, bytes) of the largest tensors, in descending order.
    """

    nbytes: int
    at: mtf.Operation
    largest: tuple[tuple[str, int], ...]


def peak(operations: Iterable[mtf.Operation], mesh: ShardMeshImpl, together: int = 1) -> Peak:
    """Returns the peak of the tensors on a device.

    The model runs operations one after the other and frees each tensor after its last use. A slice with its halo is a
    separate tensor until the last operation that needs this halo. An elementwise operation may overwrite an input of
    the same size if no later operation reads it. Zeros replace the tails of uneven slices in place; other values, such
    as the fill of a max pool, need a copy. Neither kernel work space nor memory that the allocator wastes is counted.

    Args:
      operations: the operations, in the order in which they run.
      mesh: the mesh, which is used for its geometry only.
      together: the number of processors per device. Each of them holds its own slice of a split tensor; tensors that
        are not split exist once per device.
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

    live, total, result = {}, 0, Peak(0, None, ())
    for number, op in enumerate(operations):
        new = {y: stored_bytes(y, mesh, together) for y in op.outputs if y not in same}
        new |= {w: widened_bytes(w, mesh) * together for w in needs[number] if isinstance(w, tuple) and w not in live}
        now = total + sum(new.values()) - _overwritten_bytes(op, new, ends[number], live)
        if now > result.nbytes:
            largest = sorted((live | new).items(), key=lambda item: -item[1])
            result = Peak(now, op, tuple((_name(what), size) for what, size in largest[:8]))
        live |= new
        total += sum(new.values())
        for freed in [*ends[number], *(y for y in op.outputs if y not in last and y not in same)]:
            total -= live.pop(freed, 0)
    return result


def stored_bytes(tensor: mtf.Tensor, mesh: ShardMeshImpl, together: int) -> int:
    """Returns the bytes of a tensor on one device; see `peak` for `together`."""
    copies = together if mesh.is_split(tensor.shape) else 1
    return math.prod(mesh.slice_shape(tensor.shape)) * tensor.dtype.size * copies


def widened_bytes(widened: tuple, mesh: ShardMeshImpl) -> int:
    """Returns the bytes of a slice with its halo, or 0 without a halo, because the slice itself is already counted."""
    tensor, (geometry, kind) = widened
    margins = geometry.adjoint_margins(mesh) if kind == "adjoint" else geometry.margins(mesh)
    copied = kind not in ("adjoint", 0) and tails_of(mesh, tensor.shape)
    if not copied and not any(m.before or m.after for m in margins or []):
        return 0
    sizes = mesh.slice_shape(tensor.shape)
    for m in margins or []:
        sizes[m.dim] = m.width
    return math.prod(sizes) * tensor.dtype.size


def _overwritten_bytes(op, new, ending, live):
    """Returns the bytes of an input that an elementwise operation overwrites with its output."""
    if isinstance(op, mtf.SlicewiseOperation | mtf.BinaryOpWithBroadcasting):
        sizes = [live.get(x, 0) for x in op.inputs if x in ending]
        return min(max(sizes, default=0), sum(new.values()))
    return 0


def _name(what):
    return f"{what[0].name} with its halo" if isinstance(what, tuple) else what.name
