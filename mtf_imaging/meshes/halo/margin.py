"""Margins: how many voxels of which neighbors a widened slice holds, as numbers; what is exchanged for them."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from mtf_imaging.layout.windows import SplitPlan
from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl


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
    """How slices are widened along one dimension.

    Attributes:
      dim: number of the dimension of a slice.
      size: voxels of the slice.
      before: voxels added before it.
      after: voxels added after it.
      mesh_axis: the mesh dimension whose processors hold the neighboring slices; None if the dimension is not split and
        the margins are padding.
      split: the `SplitPlan`, where it is split.
    """

    dim: int
    size: int
    before: int
    after: int
    mesh_axis: int | None = None
    split: SplitPlan | None = None

    @property
    def axis(self) -> int:
        """The mesh dimension of a dimension that is split."""
        assert self.mesh_axis is not None
        return self.mesh_axis

    @property
    def plan(self) -> SplitPlan:
        """The plan of a dimension that is split."""
        assert self.split is not None
        return self.split

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


def pieces(mesh: ShardMeshImpl, margin: Margin) -> list[Piece]:
    return [] if margin.mesh_axis is None else margin.pieces(mesh.shape[margin.mesh_axis].size)


def is_far(mesh: ShardMeshImpl, margin: Margin) -> bool:
    """Returns whether a margin reaches past the next slice."""
    return any(abs(piece.distance) > 1 for piece in pieces(mesh, margin))


def strips(mesh: ShardMeshImpl, margins: Sequence[Margin]) -> Iterator[tuple[Margin, Piece, tuple[Margin, ...]]]:
    """Yields what is exchanged, in order: (margin, piece, margins of which nothing has arrived yet).

    Along dimensions that come later or are only padded, neighbors need only a slice's own voxels.
    """
    own = list(margins)
    for margin in [m for m in margins if m.mesh_axis is not None]:
        own.remove(margin)
        for piece in pieces(mesh, margin):
            yield margin, piece, tuple(own)


def exchanges(
    mesh: ShardMeshImpl, margins: Sequence[Margin], slice_shape: Sequence[int], itemsize: int, adjoint: bool = False
) -> list[Exchange]:
    """What `widen` sends between processors, or `narrow`, its adjoint: an `Exchange` for each piece of a margin.

    Args:
      mesh: a `ShardMeshImpl`.
      margins: a `Margin` for each dimension that is widened.
      slice_shape: of what is widened.
      itemsize: bytes of an element.
      adjoint: whether margins are sent back.
    """
    found = []
    for margin, piece, own in strips(mesh, margins):
        sizes = list(slice_shape)
        for m in margins:
            sizes[m.dim] = m.size if m in own else m.before + m.size + m.after
        sizes[margin.dim] = piece.voxels
        distance = -piece.distance if adjoint else piece.distance
        found.append(Exchange("halo", (margin.axis,), math.prod(sizes) * itemsize, distance))
    return found
