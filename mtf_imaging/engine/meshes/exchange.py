"""Exchanges between the processors of a mesh, as sizes of messages. Pure Python.

Operations state their exchanges with these classes, computed from the same geometry as their lowering. The `planner`
adds them up.
"""

import dataclasses
import math
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

KINDS = ("halo", "sum", "gather", "all-to-all")


@dataclasses.dataclass(frozen=True)
class Exchange:
    """One message from every processor that has a receiver.

    Attributes:
      kind: "halo" sends a strip of voxels to the processor `distance` slices away. "sum" is an all-reduce. "gather"
        sends a slice to all other processors along the mesh axes. "all-to-all" sends each of them a different piece of
        a slice.
      axes: the mesh axes along which the message travels.
      nbytes: bytes of the strip, of the summed tensor or of the slice.
      distance: number of slices from the sender to the receiver of a halo; negative if the receiver comes before.
    """

    kind: str
    axes: tuple[int, ...]
    nbytes: int
    distance: int = 0

    def reversed(self) -> "Exchange":
        """Returns the exchange in the opposite direction."""
        return dataclasses.replace(self, distance=-self.distance)

    def sent_by(self, coordinates: Sequence[int], mesh_sizes: Sequence[int]) -> int:
        """Returns the number of bytes that the processor at the given mesh coordinates sends.

        A sum counts as a ring all-reduce, which sends `2 (n - 1) / n` of its bytes per processor, for n processors
        (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations").
        """
        if self.kind == "halo":
            (axis,) = self.axes
            return self.nbytes if 0 <= coordinates[axis] + self.distance < mesh_sizes[axis] else 0
        n = math.prod(mesh_sizes[axis] for axis in self.axes)
        shares = {"sum": 2 * (n - 1) / n, "gather": n - 1, "all-to-all": (n - 1) / n}
        return int(self.nbytes * shares[self.kind])

    def sent_by_all(self, mesh_sizes: Sequence[int]) -> int:
        """Returns the total number of bytes that all processors of a mesh send.

        >>> Exchange("halo", (0,), 100, 1).sent_by_all((4, 2))  # 2 of 8 processors have no receiver
        600
        """
        if self.kind == "halo":
            (axis,) = self.axes
            senders = max(0, mesh_sizes[axis] - abs(self.distance))
            return self.nbytes * senders * math.prod(mesh_sizes) // mesh_sizes[axis]
        return self.sent_by((0,) * len(mesh_sizes), mesh_sizes) * math.prod(mesh_sizes)


class Round(NamedTuple):
    """Exchanges of one operation that happen together.

    Attributes:
      exchanges: the messages.
      once: (tensor, key) under which operations share one result of the exchanges; None if it is not shared.
      lazy: whether the exchanges are deferred until their result is read, so that a sum of sums needs only one.
    """

    exchanges: Sequence[Exchange]
    once: tuple[object, Hashable] | None = None
    lazy: bool = False


def sum_over(axes: Collection[int], shape: Sequence[int], itemsize: int, lazy: bool = False) -> list[Round]:
    """Returns the all-reduce of slices over mesh axes, as a list of one `Round`; an empty list if there are no axes."""
    axes = tuple(sorted(set(axes)))
    return [Round([Exchange("sum", axes, math.prod(shape) * itemsize)], lazy=lazy)] if axes else []
