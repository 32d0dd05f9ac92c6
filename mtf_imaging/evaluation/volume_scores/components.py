"""The connected components of a predicted and a reference mask, with the overlaps between components.

Masks are read in slabs. Each slab is labeled separately, and the pieces of a component in neighboring slabs are joined
where they touch. The component numbers of all voxels are never in memory together.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy  # loads its modules when they are used

from mtf_imaging.evaluation.volume_scores.surface import around, bounding_box
from mtf_imaging.evaluation.volume_scores.voxels import Region, Voxels, slabs


@dataclass(frozen=True)
class MaskComponents:
    """The connected components of one mask, numbered from 1 in the order of their first voxels.

    Attributes:
      mask: the mask, bool `[x, y, z]`; it is read again by `slabs`.
      box: the box of the voxels that `slabs` yields.
      numbers: int64 `[pieces + 1]`, the component number of each piece. A piece is a component of one slab; the pieces
        of all slabs are numbered from 1 in the order of their first voxels, and entry 0 is the background.
      sizes: int64 `[components + 1]`, the number of voxels in each component; entry 0, for the background, is 0.
      full: whether edges and corners connect voxels as well as faces: 26 neighbors instead of 6.
    """

    mask: Voxels
    box: Region
    numbers: np.ndarray
    sizes: np.ndarray
    full: bool = False

    @property
    def count(self) -> int:
        """The number of components."""
        return len(self.sizes) - 1

    def slabs(self, groups: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Yields the component number of each voxel, int32 `[planes, y, z]`, for consecutive planes of the box.

        Args:
          groups: int64 `[components + 1]`; if given, it replaces the numbers.
        """
        numbers = (self.numbers if groups is None else groups[self.numbers]).astype(np.int32)
        first = 0
        for region in slabs(self.box):
            pieces, count = scipy.ndimage.label(self.mask[region], _structure(self.full, len(self.mask.shape)))
            yield np.concatenate([numbers[:1], numbers[first + 1 : first + count + 1]])[pieces]
            first += count

    def parts(self) -> Iterator[tuple[Region, np.ndarray]]:
        """Yields the region of each slab of the box, with the component numbers of its voxels; see `slabs`."""
        return zip(slabs(self.box), self.slabs(), strict=True)


@dataclass(frozen=True)
class Components:
    """The connected components of two masks, with the overlaps between them.

    Attributes:
      prediction: the components of the prediction.
      reference: the components of the reference, in the same box.
      shared: int64 `[predicted components, reference components]`, the number of voxels shared by each pair;
        component n has row or column n - 1.
    """

    prediction: MaskComponents
    reference: MaskComponents
    shared: np.ndarray


def mask_components(mask: Voxels, full: bool = False) -> MaskComponents:
    """Finds the components of one mask in its bounding box.

    Args:
      mask: bool `[x, y, z]`.
      full: whether edges and corners connect voxels as well as faces: 26 neighbors instead of 6.
    """
    box = bounding_box(mask) or _corner(mask)
    pieces = _Pieces(full)
    for region in slabs(box):
        pieces.add(mask[region])
    return pieces.join(mask, box)


def find_components(prediction: Voxels, reference: Voxels) -> Components:
    """Finds the components of two masks, connected through faces.

    Args:
      prediction: bool `[x, y, z]`; an array, or another volume that can be read in parts.
      reference: bool of the same shape.

    Returns:
      The components, in the bounding box of both masks.
    """
    masks = prediction, reference
    box = around(*map(bounding_box, masks)) or _corner(prediction)
    pieces = [_Pieces(), _Pieces()]
    pairs = [_pairs(*(one.add(mask[region]) for one, mask in zip(pieces, masks, strict=True))) for region in slabs(box)]
    found = [one.join(mask, box) for one, mask in zip(pieces, masks, strict=True)]
    predicted, real, counts = np.concatenate(pairs, axis=1)
    shared = np.zeros([one.count for one in found], np.int64)
    np.add.at(shared, (found[0].numbers[predicted] - 1, found[1].numbers[real] - 1), counts)
    return Components(*found, shared)


def _corner(mask: Voxels) -> Region:
    """Returns a box of one voxel, for masks without voxels."""
    return (slice(0, 1),) * len(mask.shape)


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the pairs of numbers above 0 at the same voxels, int64 `[3, pairs]`: both numbers and the voxel count."""
    both = (first > 0) & (second > 0)
    # One integer per pair, because NumPy sorts rows slowly.
    pairs, counts = np.unique(first[both].astype(np.int64) << 32 | second[both], return_counts=True)
    return np.stack([pairs >> 32, pairs & 0xFFFFFFFF, counts])


class _Pieces:
    """The pieces of components in consecutive slabs of a mask, and the pairs that touch."""

    def __init__(self, full: bool = False) -> None:
        self._full = full
        self._last: np.ndarray | None = None  # the numbers of the pieces in the last plane
        self._sizes = [np.zeros(1, np.int64)]
        self._touching: list[np.ndarray] = []
        self._count = 0

    def add(self, mask: np.ndarray) -> np.ndarray:
        """Adds a slab and returns the numbers of its pieces, int32, which are unique over all slabs."""
        pieces, count = scipy.ndimage.label(mask, _structure(self._full, mask.ndim))
        inside = pieces > 0
        self._sizes.append(np.bincount(pieces[inside], minlength=count + 1)[1:])
        pieces[inside] += self._count
        if self._last is not None:
            self._touching += [_pairs(*planes)[:2] for planes in _shifted(self._last, pieces[0], self._full)]
        self._last = pieces[-1].copy()
        self._count += count
        return pieces

    def join(self, mask: Voxels, box: Region) -> MaskComponents:
        """Joins the pieces that touch."""
        nodes = self._count + 1  # node 0 is the background
        first, second = np.concatenate([np.zeros((2, 0), np.int64), *self._touching], axis=1)
        graph = scipy.sparse.coo_array((np.ones(len(first), bool), (first, second)), shape=(nodes, nodes))
        _, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
        # Pieces are numbered in the order of their first voxels, so components are as well.
        _, first_piece, component = np.unique(labels, return_index=True, return_inverse=True)
        numbers = np.argsort(np.argsort(first_piece))[component]
        sizes = np.zeros(len(first_piece), np.int64)
        np.add.at(sizes, numbers, np.concatenate(self._sizes))
        return MaskComponents(mask, box, numbers, sizes, self._full)


def _structure(full: bool, ndim: int) -> np.ndarray | None:
    """Returns the neighbors of a voxel for `ndimage.label`; None means faces."""
    return np.ones((3,) * ndim, bool) if full else None


def _shifted(first: np.ndarray, second: np.ndarray, full: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields two neighboring planes so that connected voxels are at the same place."""
    before, after = slice(1, None), slice(None, -1)
    moves = {-1: (before, after), 0: (slice(None), slice(None)), 1: (after, before)}
    for steps in itertools.product(*((-1, 0, 1) if full and size > 1 else (0,) for size in first.shape)):
        pairs = [moves[step] for step in steps]
        yield first[tuple(a for a, _ in pairs)], second[tuple(b for _, b in pairs)]
