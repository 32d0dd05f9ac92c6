"""What processors of a mesh send each other: arithmetic of messages, in pure Python.

Operations say what they exchange in these terms, of the same geometry that they are lowered by; `planner` adds it up.
"""

import dataclasses
import math
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

KINDS = ("halo", "sum", "gather", "all-to-all")


@dataclasses.dataclass(frozen=True)
class Exchange:
    """One message of every processor that has somebody to send it to.

    Attributes:
      kind: "halo": a strip of voxels, to the neighbor `distance` slices on; "sum": an all-reduce; "gather": a slice,
        to all others along the mesh axes; "all-to-all": of a slice another part to each of them.
      axes: the mesh axes along which it goes.
      nbytes: of the strip; of what is summed; of the slice.
      distance: of the receiver, for a halo; negative for one before.
    """

    kind: str
    axes: tuple[int, ...]
    nbytes: int
    distance: int = 0

    def sent_by(self, coordinates: Sequence[int], mesh_sizes: Sequence[int]) -> int:
        """Bytes that the processor at these mesh coordinates sends.

        A sum is counted as a ring sends it, `2 (n - 1) / n` of its bytes among n processors (Patarasuk and Yuan 2009,
        "Bandwidth optimal all-reduce algorithms for clusters of workstations").
        """
        if self.kind == "halo":
            (axis,) = self.axes
            return self.nbytes if 0 <= coordinates[axis] + self.distance < mesh_sizes[axis] else 0
        n = math.prod(mesh_sizes[axis] for axis in self.axes)
        shares = {"sum": 2 * (n - 1) / n, "gather": n - 1, "all-to-all": (n - 1) / n}
        return int(self.nbytes * shares[self.kind])

    def sent_by_all(self, mesh_sizes: Sequence[int]) -> int:
        """Bytes that all processors of a mesh of these sizes send together.

        >>> Exchange("halo", (0,), 100, 1).sent_by_all((4, 2))  # 2 of 8 processors have nobody behind them
        600
        """
        if self.kind == "halo":
            (axis,) = self.axes
            senders = max(0, mesh_sizes[axis] - abs(self.distance))
            return self.nbytes * senders * math.prod(mesh_sizes) // mesh_sizes[axis]
        return self.sent_by((0,) * len(mesh_sizes), mesh_sizes) * math.prod(mesh_sizes)


class Round(NamedTuple):
    """Exchanges of an operation that are made together.

    Attributes:
      exchanges: them.
      once: what they bring, where operations that want the same share it: a tensor and a key.
      lazy: whether they are put off until somebody reads what they make: a sum of sums is then one.
    """

    exchanges: Sequence[Exchange]
    once: tuple[object, Hashable] | None = None
    lazy: bool = False


def sum_over(axes: Collection[int], shape: Sequence[int], itemsize: int, lazy: bool = False) -> list[Round]:
    """The all-reduce, over mesh axes, of slices of a shape; none where there are no axes."""
    axes = tuple(sorted(set(axes)))
    return [Round([Exchange("sum", axes, math.prod(shape) * itemsize)], lazy=lazy)] if axes else []
