"""The weights of a resize along one dimension."""

import dataclasses

import numpy as np

from mtf_imaging.engine.ops.resize.taps import Resampling, Taps

METHODS = ("linear", "nearest", "repeat")


@dataclasses.dataclass(frozen=True)
class Interpolation(Resampling):
    """A resize from `size` to `outputs` voxels, like `tf.image.resize` without antialiasing.

    Voxels are cells: the center of output o lies at `(o + 1/2) size / outputs - 1/2`, in voxels of the input. With
    `align_corners`, the centers of the first and last voxels are kept: output o lies at `o (size - 1) / (outputs - 1)`,
    or at 0 if it is the only one.

    "linear" weights the two voxels around the center by their proximity, and repeats the border voxel beyond the
    border. "nearest" takes the voxel whose cell contains the center; on the border of two cells, it takes the second.
    It is computed in float32, as in TensorFlow, so that rounding decides such borders in the same way. "repeat" copies
    every voxel as often as needed, `ceil(outputs / size)` times, and cuts off the end.

    Attributes:
      size: number of voxels in the input.
      outputs: number of voxels in the result.
      method: "linear", "nearest" or "repeat".
      align_corners: whether to keep the centers of the first and last voxels instead of the borders of their cells.
    """

    method: str
    align_corners: bool = False

    def taps(self) -> Taps:
        if self.method in ("nearest", "repeat"):
            rows = np.arange(self.outputs)
            sources = self._nearest() if self.method == "nearest" else rows // -(-self.outputs // self.size)
            positions = np.minimum(sources, self.size - 1).astype(np.int32)[np.newaxis]
            return Taps(positions, np.ones(positions.shape))
        numerators, denominator = self._centers()
        below, rest = np.divmod(numerators, denominator)
        above = np.where(rest, below + 1, below)  # A center on a voxel needs only that voxel.
        positions = np.clip([below, above], 0, self.size - 1).astype(np.int32)
        return Taps(positions, np.array([1 - rest / denominator, rest / denominator]))

    def _nearest(self) -> np.ndarray:
        rows = np.arange(self.outputs).astype(np.float32)
        if self.align_corners:
            scale = np.float32(self.size - 1) / np.float32(max(self.outputs - 1, 1))
            return np.floor((rows * scale).astype(np.float64) + 0.5)  # halves away from 0, like roundf
        return np.floor((rows + np.float32(0.5)) * (np.float32(self.size) / np.float32(self.outputs)))

    def _centers(self) -> tuple[np.ndarray, int]:
        """Returns the centers of the outputs as fractions: the numerators and their common denominator."""
        rows = np.arange(self.outputs)
        if self.align_corners:
            return rows * (self.size - 1), max(self.outputs - 1, 1)
        return (2 * rows + 1) * self.size - self.outputs, 2 * self.outputs
