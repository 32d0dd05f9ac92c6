"""Resizing along one dimension as a sparse matrix, cut into what each slice of that dimension does. NumPy alone.

A row of the matrix is a voxel of the result, its taps the voxels that this is a weighted sum of. The transposed matrix
is the adjoint. The number of taps is that of the row that has most; others are filled up with weights of 0.
"""

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np

METHODS = ("linear", "nearest")


@dataclasses.dataclass(frozen=True, eq=False)
class Taps:
    """`y[row] = sum over taps of weights[tap, row] x[positions[tap, row]]`.

    Attributes:
      positions: int32 [..., taps, rows]
      weights: float64 [..., taps, rows]
    """

    positions: np.ndarray
    weights: np.ndarray

    @property
    def copies(self) -> bool:
        """Whether every row is one of the voxels as it is."""
        return self.weights.shape[-2] == 1 and bool((self.weights == 1).all())

    def transposed(self, columns: int) -> "Taps":
        """The adjoint, of a matrix of `columns` columns."""
        taps, rows = np.nonzero(self.weights)
        column = self.positions[taps, rows]
        order = np.argsort(column, kind="stable")
        column, row, weight = column[order], rows[order], self.weights[taps, rows][order]
        counts = np.bincount(column, minlength=columns)
        tap = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions, weights = np.zeros((counts.max(), columns), np.int32), np.zeros((counts.max(), columns))
        positions[tap, column], weights[tap, column] = row, weight
        return Taps(positions, weights)


@dataclasses.dataclass(frozen=True, eq=False)
class SlicePlan:
    """What each of `parts` slices of a dimension does, once it is widened by `before` and `after` voxels.

    Attributes:
      before, after: voxels of its neighbors that some slice needs; never more than one.
      forward: `Taps` of all slices, [parts, taps, outputs / parts]: positions in the widened slice.
      backward: of the adjoint, [parts, taps, voxels of the widened slice]: positions in the slice of the result.
    """

    before: int
    after: int
    forward: Taps
    backward: Taps


def interpolate(size: int, outputs: int, method: str) -> Taps:
    """The `Taps` that make `outputs` voxels of `size` voxels, as `tf.image.resize` does without antialiasing.

    Voxels are cells: the center of output o lies at `(o + 1/2) size / outputs - 1/2`, in voxels of the input. Linear
    weighs the two voxels around it by their nearness, and repeats the border beyond it; nearest takes the voxel whose
    cell it lies in, the later one of two. Nearest is computed in float32, as TensorFlow does: where a center is on the
    border of two cells, rounding decides, and it is to decide the same.
    """
    rows = np.arange(outputs)
    if method == "nearest":
        cells = (rows.astype(np.float32) + np.float32(0.5)) * (np.float32(size) / np.float32(outputs))
        positions = np.minimum(np.floor(cells).astype(np.int32), size - 1)[np.newaxis]
        return Taps(positions, np.ones(positions.shape))
    below, rest = np.divmod((2 * rows + 1) * size - outputs, 2 * outputs)
    above = np.where(rest, below + 1, below)  # a center on a voxel needs no other
    positions = np.clip([below, above], 0, size - 1).astype(np.int32)
    return Taps(positions, np.array([1 - rest / (2 * outputs), rest / (2 * outputs)]))


@functools.lru_cache(maxsize=64)
def plan_slices(size: int, outputs: int, parts: int, method: str) -> SlicePlan:
    """The `SlicePlan` of a dimension of `size` voxels, resized to `outputs`, in `parts` slices; they divide both."""
    whole = interpolate(size, outputs, method)
    m = size // parts
    positions = np.stack(np.split(whole.positions, parts, axis=1)) - m * np.arange(parts)[:, np.newaxis, np.newaxis]
    weights = np.stack(np.split(whole.weights, parts, axis=1))
    used = weights.any(axis=(0, 2))
    positions, weights = positions[:, used], weights[:, used]
    before, after = max(0, -positions.min()), max(0, positions.max() - m + 1)
    forward = Taps((positions + before).astype(np.int32), weights)
    adjoints = [Taps(p, w).transposed(before + m + after) for p, w in zip(forward.positions, weights)]
    most = max(len(a.weights) for a in adjoints)

    def stacked(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.stack([np.pad(a, [(0, most - len(a)), (0, 0)]) for a in arrays])

    backward = Taps(stacked(a.positions for a in adjoints), stacked(a.weights for a in adjoints))
    return SlicePlan(int(before), int(after), forward, backward)
