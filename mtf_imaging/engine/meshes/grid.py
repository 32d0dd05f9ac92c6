"""Assigns the processors of a mesh to devices. Pure Python.

A mesh of processors is divided into equal boxes, one per device. The slices of a box's processors are stacked on
its device, and this stack is a shard. One shard of n slices simulates a mesh on one device. n shards of one slice are a
mesh with one device per processor.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Self


@dataclasses.dataclass(frozen=True)
class ShardGrid:
    """A division of a mesh into equal boxes: `mesh = shards x local` along each mesh dimension.

    Along a mesh dimension in turns, a box contains one processor at a time: `shards = local = 1`.

    Attributes:
      mesh: number of processors along each mesh dimension.
      shards: number of shards along each mesh dimension.
      local: number of processors in one shard along each mesh dimension.
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

    def is_in_turns(self, axis: int) -> bool:
        """Returns whether the processors along a mesh dimension compute one after another (see `turns`)."""
        return self.mesh[axis] > self.shards[axis] * self.local[axis]

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
        """Returns the mesh coordinates of a shard's processors, in stack order."""
        local = itertools.product(*(range(n) for n in self.local))
        return [tuple(b * n + i for b, n, i in zip(shard, self.local, at)) for at in local]

    def group(self, shard: Sequence[int], axes: Collection[int]) -> list[int]:
        """Returns the numbers of the shards that differ from a shard only along mesh dimensions `axes`, ascending."""
        along = (range(n) if axis in axes else [at] for axis, (n, at) in enumerate(zip(self.shards, shard)))
        return [self.shard_number(at) for at in itertools.product(*along)]

    def groups(self, axes: Collection[int]) -> list[list[int]]:
        """Groups the numbers of shards that differ only along mesh dimensions `axes`, in ascending order."""
        return [self.group(at, axes) for at in self.first_members(self.shard_coordinates(), axes)]

    def shard_number(self, shard: Sequence[int]) -> int:
        """Returns the number of the shard at the given coordinates."""
        number = 0
        for size, at in zip(self.shards, shard):
            number = number * size + at
        return number

    def first_members(self, shards: Iterable[Sequence[int]], axes: Collection[int]) -> list[tuple[int, ...]]:
        """Returns the coordinates of the first shard of each `group` that includes one of `shards`, without repeats."""
        firsts = (tuple(0 if axis in axes else c for axis, c in enumerate(at)) for at in shards)
        return list(dict.fromkeys(firsts))
