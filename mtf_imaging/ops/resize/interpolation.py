"""Resizing along one dimension as a sparse matrix, which is divided into one matrix for each slice.

The module uses only NumPy. Each row of the matrix computes one voxel of the result, as a weighted sum of input voxels:
the taps of the row. All rows have the same number of taps; unused taps have a weight of 0. The transposed matrix is the
adjoint.
"""

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np

METHODS = ("linear", "nearest")


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
        return self.weights.shape[-2] == 1 and bool((self.weights == 1).all())

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


@dataclasses.dataclass(frozen=True, eq=False)
class SlicePlan:
    """The matrix of each slice of a dimension, which applies to the slice with its halo.

    Attributes:
      before, after: size of the halo on each side in voxels, at most 1. All slices have the same halo.
      forward: `Taps` of all slices, [slices, taps, outputs of a slice], with positions in the widened slice.
      backward: `Taps` of the adjoints, [slices, taps, voxels of a widened slice], with positions in the output slice.
    """

    before: int
    after: int
    forward: Taps
    backward: Taps


def interpolate(size: int, outputs: int, method: str) -> Taps:
    """Returns the taps of a resize from `size` to `outputs` voxels, like `tf.image.resize` without antialiasing.

    Voxels are cells: the center of output o lies at `(o + 1/2) size / outputs - 1/2`, in voxels of the input.

    "linear" weights the two voxels around the center by their proximity, and repeats the border voxel beyond the
    border. "nearest" takes the voxel whose cell contains the center; on the border of two cells, it takes the second.
    It is computed in float32, as in TensorFlow, so that rounding decides such borders in the same way.

    Args:
      size: number of voxels in the input.
      outputs: number of voxels in the result.
      method: "linear" or "nearest".
    """
    rows = np.arange(outputs)
    if method == "nearest":
        cells = (rows.astype(np.float32) + np.float32(0.5)) * (np.float32(size) / np.float32(outputs))
        positions = np.minimum(np.floor(cells).astype(np.int32), size - 1)[np.newaxis]
        return Taps(positions, np.ones(positions.shape))
    below, rest = np.divmod((2 * rows + 1) * size - outputs, 2 * outputs)
    above = np.where(rest, below + 1, below)  # A center on a voxel needs only that voxel.
    positions = np.clip([below, above], 0, size - 1).astype(np.int32)
    return Taps(positions, np.array([1 - rest / (2 * outputs), rest / (2 * outputs)]))


@functools.lru_cache(maxsize=64)
def plan_slices(size: int, outputs: int, parts: int, method: str) -> SlicePlan:
    """Returns the plan of a dimension of `size` voxels that is resized to `outputs` voxels, in `parts` slices.

    `parts` must divide `size` and `outputs`.
    """
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
