"""Assigns the processors of a mesh to devices. Pure Python.

A mesh of processors is divided into equal boxes, one per device. The slices of the processors of a box are stacked on
its device, and this stack is a shard. One shard of n slices simulates a mesh on one device. n shards of one slice are a
mesh with one device per processor.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Self


@dataclasses.dataclass(frozen=True)
class ShardGrid:
    """A division of a mesh into equal boxes: `mesh = shards x local` along each mesh dimension.

    Attributes:
      mesh: number of processors along each mesh dimension.
      shards: number of shards along each mesh dimension.
      local: number of processors of one shard along each mesh dimension.
    """

    mesh: tuple[int, ...]
    shards: tuple[int, ...]
    local: tuple[int, ...]

    @classmethod
    def make(cls, mesh: Sequence[int], num_devices: int) -> Self:
        """Divides a mesh into equal boxes, at most one per device, starting with the first mesh dimension."""
        shards, remaining = [], num_devices
        for size in mesh:
            shards.append(math.gcd(size, remaining))
            remaining //= shards[-1]
        return cls(tuple(mesh), tuple(shards), tuple(m // b for m, b in zip(mesh, shards)))

    @property
    def num_shards(self) -> int:
        return math.prod(self.shards)

    @property
    def stack_size(self) -> int:
        """The number of processors per shard."""
        return math.prod(self.local)

    def shard_coordinates(self) -> list[tuple[int, ...]]:
        """Returns the coordinates of all shards in row-major order, which is also the order of shard numbers."""
        return list(itertools.product(*(range(b) for b in self.shards)))

    def processor_coordinates(self, shard: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the mesh coordinates of the processors of a shard, in the order of its stack."""
        local = itertools.product(*(range(n) for n in self.local))
        return [tuple(b * n + i for b, n, i in zip(shard, self.local, at)) for at in local]

    def groups(self, axes: Collection[int]) -> list[list[int]]:
        """Groups the numbers of shards that differ only along mesh dimensions `axes`, in ascending order."""
        groups: dict[tuple[int | None, ...], list[int]] = {}
        for number, shard in enumerate(self.shard_coordinates()):
            key = tuple(None if axis in axes else b for axis, b in enumerate(shard))
            groups.setdefault(key, []).append(number)
        return list(groups.values())
