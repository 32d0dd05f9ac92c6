"""The slices of one dimension: `ceil(n / N)` of n elements on each of N processors, with fewer in the last ones."""

import collections
import dataclasses
from collections.abc import Iterable

from mtf_imaging.engine.layout.layout import Layout


@dataclasses.dataclass(frozen=True)
class Slices:
    """The slices of a dimension.

    >>> str(Slices(127, 2)), str(Slices(5, 4)), str(Slices(33, 16))
    ('slices of 64, last 63', 'slices of 2, last 1, 1 of 4 empty', 'slices of 3, 5 of 16 empty')

    Attributes:
      whole: number of elements in the whole dimension.
      parts: number of processors.
    """

    whole: int
    parts: int

    @property
    def size(self) -> int:
        """Number of elements in a stored slice."""
        return -(-self.whole // self.parts)

    @property
    def filled(self) -> int:
        """Number of slices with elements. The processors of the other slices are idle."""
        return -(-self.whole // self.size)

    @property
    def empty(self) -> int:
        """Number of slices without elements."""
        return self.parts - self.filled

    @property
    def last(self) -> int:
        """Number of elements in the last nonempty slice."""
        return self.whole - (self.filled - 1) * self.size

    @property
    def uneven(self) -> bool:
        return self.whole % self.parts != 0

    @property
    def stored_ratio(self) -> float:
        """Number of stored elements per element of the whole dimension, at least 1."""
        return self.size * self.parts / self.whole

    def __str__(self) -> str:
        last = f", last {self.last}" if self.last < self.size else ""
        return f"slices of {self.size}{last}" + (f", {self.empty} of {self.parts} empty" if self.empty else "")


@dataclasses.dataclass(frozen=True)
class UnevenSplit:
    """A dimension with uneven slices.

    >>> str(UnevenSplit("x", "rows", Slices(127, 2)))
    'x: 127 over rows:2 -> slices of 64, last 63'

    Attributes:
      dim: the name of the dimension.
      mesh_dim: the mesh dimension that splits it.
      slices: its slices.
    """

    dim: str
    mesh_dim: str
    slices: Slices

    def __str__(self) -> str:
        return f"{self.dim}: {self.slices.whole} over {self.mesh_dim}:{self.slices.parts} -> {self.slices}"


def uneven_splits(layout: Layout, shapes: Iterable[Iterable[tuple[str, int]]]) -> tuple[UnevenSplit, ...]:
    """Returns the dimensions that a layout splits into uneven slices.

    >>> [str(split) for split in uneven_splits(Layout.parse("rows:2", "x:rows"), [[("x", 5), ("y", 4)], [("x", 4)]])]
    ['x: 5 over rows:2 -> slices of 3, last 2']

    Args:
      layout: the layout.
      shapes: the shapes of all tensors, as pairs (dimension, size).
    """
    found: list[UnevenSplit] = []
    sizes: dict[str, set[int]] = collections.defaultdict(set)
    for dim, size in {pair for shape in shapes for pair in shape}:
        sizes[dim].add(size)
    for dim, mesh_dim in layout.rules:
        every = [Slices(size, layout.slices_per_dimension[dim]) for size in sorted(sizes[dim], reverse=True)]
        found += [UnevenSplit(dim, mesh_dim, slices) for slices in every if slices.uneven]
    return tuple(found)
