"""Which processors of a mesh share a device: arithmetic of blocks, in pure Python.

A mesh of processors is divided into equal boxes, its blocks, one a device. All processors of a block keep their slices
in one stack on that device. One block of n processors is a mesh simulated on one device; n blocks of one processor
is a mesh with a device each.
"""

import dataclasses
import itertools
import math


@dataclasses.dataclass(frozen=True)
class BlockGrid:
    """`mesh = blocks x local`, mesh dimension by mesh dimension.

    Attributes:
      mesh: processors along each mesh dimension.
      blocks: blocks along each mesh dimension.
      local: processors of one block along each mesh dimension.
    """

    mesh: tuple
    blocks: tuple
    local: tuple

    @classmethod
    def make(cls, mesh, num_devices):
        """Divides a mesh over as many of `num_devices` devices as divide it into equal boxes, first dimension first."""
        blocks, remaining = [], num_devices
        for size in mesh:
            blocks.append(math.gcd(size, remaining))
            remaining //= blocks[-1]
        return cls(tuple(mesh), tuple(blocks), tuple(m // b for m, b in zip(mesh, blocks)))

    @property
    def num_blocks(self):
        return math.prod(self.blocks)

    @property
    def stack_size(self):
        """Processors a block."""
        return math.prod(self.local)

    def block_coordinates(self):
        """The coordinates of every block, row-major: block number k is the k-th."""
        return list(itertools.product(*(range(b) for b in self.blocks)))

    def processor_coordinates(self, block):
        """Mesh coordinates of the processors of the block at coordinates `block`, in the order of its stack."""
        local = itertools.product(*(range(n) for n in self.local))
        return [tuple(b * n + i for b, n, i in zip(block, self.local, at)) for at in local]

    def groups(self, axes):
        """Block numbers, grouped:

        The blocks of a group differ in the mesh dimensions `axes` only, and ascend along them.
        """
        groups = {}
        for number, block in enumerate(self.block_coordinates()):
            key = tuple(None if axis in axes else b for axis, b in enumerate(block))
            groups.setdefault(key, []).append(number)
        return list(groups.values())
