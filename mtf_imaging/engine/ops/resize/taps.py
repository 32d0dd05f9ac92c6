"""Resampling along one dimension as a sparse matrix, which is divided into one matrix per slice.

The module uses only NumPy. Each row of the matrix computes one voxel of the result, as a weighted sum of input voxels:
the taps of the row. All rows have the same number of taps; unused taps have a weight of 0. The transposed matrix is the
adjoint.
"""

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Taps:
    """A sparse matrix: `y[row] = sum over taps of weights[tap, row] x[positions[tap, row]]`.

    Attributes:
      positions: int32 [..., taps, rows]
      weights: float64 [..., taps, rows]
    """

    positions: np.ndarray
    weights: np.ndarray

    @property
    def copies(self) -> bool:
        """Whether every row is a copy of one voxel."""
        return self.selects and bool(self.weights.all())

    @property
    def selects(self) -> bool:
        """Whether every row is a copy of one voxel, or 0."""
        return self.weights.shape[-2] == 1 and bool(np.isin(self.weights, (0, 1)).all())

    def transposed(self, columns: int) -> "Taps":
        """Returns the adjoint of a matrix with `columns` columns."""
        taps, rows = np.nonzero(self.weights)
        column = self.positions[taps, rows]
        order = np.argsort(column, kind="stable")
        column, row, weight = column[order], rows[order], self.weights[taps, rows][order]
        counts = np.bincount(column, minlength=columns)
        tap = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions, weights = np.zeros((counts.max(), columns), np.int32), np.zeros((counts.max(), columns))
        positions[tap, column], weights[tap, column] = row, weight
        return Taps(positions, weights)


@dataclasses.dataclass(frozen=True)
class Resampling:
    """Base class of the maps from the input voxels of a dimension to the output voxels.

    Subclasses define `taps`.

    Attributes:
      size: number of voxels in the input.
      outputs: number of voxels in the result.
    """

    size: int
    outputs: int

    def taps(self) -> Taps:
        """Returns the matrix of the whole dimension."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, eq=False)
class SlicePlan:
    """One matrix for each slice of a dimension, which applies to the slice with its halo.

    Attributes:
      before, after: size of the halo on each side in voxels. All slices have the same halo, which may reach past the
        next slice.
      forward: `Taps` of all slices, [slices, taps, outputs of a slice], with positions in the widened slice.
      backward: `Taps` of the adjoints, [slices, taps, voxels of a widened slice], with positions in the output slice.
    """

    before: int
    after: int
    forward: Taps
    backward: Taps


@functools.lru_cache(maxsize=64)
def plan_slices(resampling: Resampling, parts: int) -> SlicePlan:
    """Returns the plan of a dimension in `parts` slices of `ceil(size / parts)` voxels.

    Slices of the result have `ceil(outputs / parts)` voxels. Rows beyond the last voxel have weights of 0.
    """
    whole, m = resampling.taps(), -(-resampling.size // parts)
    pads = [(0, 0), (0, -resampling.outputs % parts)]
    firsts = m * np.arange(parts)[:, np.newaxis, np.newaxis]
    positions = np.stack(np.split(np.pad(whole.positions, pads, "edge"), parts, axis=1)) - firsts
    weights = np.stack(np.split(np.pad(whole.weights, pads), parts, axis=1))
    used = weights.any(axis=(0, 2))
    positions, weights = positions[:, used], weights[:, used]
    needed = positions[np.broadcast_to(weights.any(axis=1, keepdims=True), positions.shape)]
    positions = np.clip(positions, needed.min(), needed.max())  # rows beyond the last voxel add nothing to the halo
    before, after = max(0, -int(positions.min())), max(0, int(positions.max()) - m + 1)
    forward = Taps((positions + before).astype(np.int32), weights)
    adjoints = [Taps(p, w).transposed(before + m + after) for p, w in zip(forward.positions, weights)]
    most = max(len(a.weights) for a in adjoints)

    def stacked(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.stack([np.pad(a, [(0, most - len(a)), (0, 0)]) for a in arrays])

    backward = Taps(stacked(a.positions for a in adjoints), stacked(a.weights for a in adjoints))
    return SlicePlan(before, after, forward, backward)
