"""Which processors of a mesh share a device: arithmetic of shards, in pure Python.

A mesh of processors is divided into equal boxes, one per device. The slices of the processors of a box are stacked on
its device; this stack is a shard. One shard of n slices is a mesh simulated on one device; n shards of one slice are a
mesh with a device for each processor.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Self


@dataclasses.dataclass(frozen=True)
class ShardGrid:
    """`mesh = shards x local`, mesh dimension by mesh dimension.

    Attributes:
      mesh: processors along each mesh dimension.
      shards: shards along each mesh dimension.
      local: processors of one shard along each mesh dimension.
    """

    mesh: tuple[int, ...]
    shards: tuple[int, ...]
    local: tuple[int, ...]

    @classmethod
    def make(cls, mesh: Sequence[int], num_devices: int) -> Self:
        """Divides a mesh over as many of `num_devices` devices as divide it into equal boxes, first dimension first."""
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
        """Processors a shard."""
        return math.prod(self.local)

    def shard_coordinates(self) -> list[tuple[int, ...]]:
        """The coordinates of every shard, row-major: shard number k is the k-th."""
        return list(itertools.product(*(range(b) for b in self.shards)))

    def processor_coordinates(self, shard: Sequence[int]) -> list[tuple[int, ...]]:
        """Mesh coordinates of the processors of the shard at coordinates `shard`, in the order of its stack."""
        local = itertools.product(*(range(n) for n in self.local))
        return [tuple(b * n + i for b, n, i in zip(shard, self.local, at)) for at in local]

    def groups(self, axes: Collection[int]) -> list[list[int]]:
        """Groups shard numbers: the shards of a group differ in mesh dimensions `axes` only and ascend along them."""
        groups: dict[tuple[int | None, ...], list[int]] = {}
        for number, shard in enumerate(self.shard_coordinates()):
            key = tuple(None if axis in axes else b for axis, b in enumerate(shard))
            groups.setdefault(key, []).append(number)
        return list(groups.values())
