"""Margins: the voxels of neighbors that a widened slice contains. Pure Python."""

import dataclasses

from mtf_imaging.engine.layout.windows import SplitPlan


@dataclasses.dataclass(frozen=True)
class Piece:
    """The part of a margin that comes from one neighbor.

    Attributes:
      voxels: number of voxels.
      distance: distance to the neighbor, in slices; positive if the neighbor comes before.
      source: index of the first of these voxels in the neighbor's widened slice.
      target: index of the first of these voxels in the receiving widened slice.
    """

    voxels: int
    distance: int
    source: int
    target: int


@dataclasses.dataclass(frozen=True)
class Margin:
    """The voxels by which slices are widened along one dimension.

    If the dimension is not split, negative numbers crop.

    Attributes:
      dim: position of the dimension in the shape of a slice.
      size: number of voxels in the slice.
      before: number of voxels added before the slice.
      after: number of voxels added after the slice.
      mesh_axis: the mesh axis whose processors have the neighboring slices; None if the dimension is not split and the
        margins are padding.
      split: the `SplitPlan` of a split dimension, or None.
    """

    dim: int
    size: int
    before: int
    after: int
    mesh_axis: int | None = None
    split: SplitPlan | None = None

    @property
    def axis(self) -> int:
        """The mesh axis of a split dimension."""
        assert self.mesh_axis is not None
        return self.mesh_axis

    @property
    def plan(self) -> SplitPlan:
        """The `SplitPlan` of a split dimension."""
        assert self.split is not None
        return self.split

    @property
    def removed(self) -> "Margin":
        """The voxels that negative numbers crop: the margin of the remaining voxels."""
        before, after = max(0, -self.before), max(0, -self.after)
        return Margin(self.dim, self.size - before - after, before, after)

    @property
    def added(self) -> "Margin":
        """The margin that widens the voxels that remain without `removed`."""
        if min(self.before, self.after) >= 0:
            return self
        before, after = max(0, self.before), max(0, self.after)
        return dataclasses.replace(self, size=self.removed.size, before=before, after=after)

    @property
    def width(self) -> int:
        """The number of voxels in a slice that is widened and cut."""
        if self.split is not None and self.split.needs_cut:
            return self.split.length
        return self.before + self.size + self.after

    def first(self, at: int) -> int:
        """Returns the first voxel of the whole tensor in a slice that is widened and cut."""
        start = self.plan.starts[at] if self.split is not None and self.split.needs_cut else 0
        return at * self.size - self.before + start

    @property
    def cut(self) -> "Margin | None":
        """The voxels of the widened slice that no window reads, as a margin, or None if they differ between slices."""
        first, *others = set(self.plan.starts)
        return None if others else Margin(self.dim, self.plan.length, first, self.plan.width - first - self.plan.length)

    def pieces(self, parts: int) -> list[Piece]:
        """Returns the `Piece`s of the margins, one per neighbor in reach, for a dimension of `parts` slices."""
        pieces = []
        for hop in range(1, min(-(-self.before // self.size), parts - 1) + 1):
            voxels = min(self.size, self.before - (hop - 1) * self.size)
            source, target = self.before + self.size - voxels, self.before - (hop - 1) * self.size - voxels
            pieces.append(Piece(voxels, hop, source, target))
        for hop in range(1, min(-(-self.after // self.size), parts - 1) + 1):
            voxels = min(self.size, self.after - (hop - 1) * self.size)
            pieces.append(Piece(voxels, -hop, self.before, self.before + hop * self.size))
        return pieces
