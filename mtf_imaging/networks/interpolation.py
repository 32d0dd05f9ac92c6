"""The weights of resizes along one axis, in all modes of ONNX and of TensorFlow."""

import dataclasses
import math

import numpy as np

from mtf_imaging.engine.ops.resize.taps import Resampling, Taps


@dataclasses.dataclass(frozen=True)
class Resized(Resampling):
    """A resize along one axis, as ONNX defines it. Coordinates are computed in float32, as in ONNX Runtime.

    Attributes:
      size, outputs: number of voxels in the input and in the result.
      scale: the ratio of voxels, which may differ from `outputs / size` by rounding.
      mode: "nearest", "linear" or "cubic".
      coordinates: how the position of an output in the input is computed.
      nearest: how a position is rounded.
      cubic: the coefficient of the cubic kernel.
      excludes: whether voxels outside the image have no weight. Otherwise, the border is repeated.
      antialias: whether the kernel is stretched if the image shrinks.
      roi: the part of the axis that "tf_crop_and_resize" takes.
    """

    scale: float
    mode: str
    coordinates: str
    nearest: str = "floor"
    cubic: float = -0.5
    excludes: bool = True
    antialias: bool = False
    roi: tuple[float, float] = (0.0, 1.0)

    def centers(self) -> np.ndarray:
        """Returns the position of each output in the input."""
        o, scale = np.arange(self.outputs, dtype=np.float32), np.float32(self.scale)
        half, last = np.float32(0.5), np.float32(self.size - 1)
        if self.coordinates == "asymmetric":
            return o / scale
        if self.coordinates == "align_corners":
            return o * last / np.float32(max(self.outputs - 1, 1))
        if self.coordinates == "pytorch_half_pixel" and self.outputs == 1:
            return np.zeros(1, np.float32)
        if self.coordinates == "tf_crop_and_resize":
            start, end = map(np.float32, self.roi)
            if self.outputs == 1:
                return np.array([half * (start + end) * last])
            return start * last + o * (end - start) * last / np.float32(self.outputs - 1)
        centers = (o + half) / scale - half
        if self.coordinates == "half_pixel_symmetric":
            adjustment = np.float32(self.outputs) / (scale * np.float32(self.size))
            centers += np.float32(self.size) / 2 * (1 - adjustment)
        return centers

    def taps(self) -> Taps:
        centers = self.centers()
        if self.mode == "nearest":
            whole = np.floor(centers)
            rounded = {
                "round_prefer_floor": np.ceil(centers - np.float32(0.5)),
                "round_prefer_ceil": np.floor(centers + np.float32(0.5)),
                "floor": whole,
                "ceil": np.ceil(centers),
            }[self.nearest]
            positions = np.clip(rounded, 0, self.size - 1).astype(np.int32)[np.newaxis]
            return Taps(positions, self._inside(centers) * np.ones(positions.shape))
        stretch = max(1.0, 1 / self.scale) if self.antialias else 1.0
        reach = math.ceil((1 if self.mode == "linear" else 2) * stretch)
        below = np.floor(centers).astype(np.int64)
        positions = below + np.arange(1 - reach, reach + 1)[:, np.newaxis]
        weights = self._kernel((positions - centers.astype(np.float64)) / stretch)
        inside = (positions >= 0) & (positions < self.size)
        if self.excludes:
            weights = np.where(inside, weights, 0)
        if self.excludes or self.antialias:
            weights /= weights.sum(0)
        return Taps(np.clip(positions, 0, self.size - 1).astype(np.int32), self._inside(centers) * weights)

    def _inside(self, centers: np.ndarray) -> np.ndarray:
        """Returns 0 for outputs that lie outside the input, which are extrapolated, and 1 for all others."""
        if self.coordinates != "tf_crop_and_resize":
            return np.ones(len(centers))
        return ((centers >= 0) & (centers <= self.size - 1)).astype(float)

    def _kernel(self, x: np.ndarray) -> np.ndarray:
        x, a = np.abs(x), self.cubic
        if self.mode == "linear":
            return np.maximum(1 - x, 0)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))
