"""Resize in all its modes, and other operators that multiply axes by sparse matrices."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.ops.resize.taps import Resampling, Taps
from mtf_imaging.networks.onnx.registry import Call, Value, operator, sizes


def resampled(call: Call, x: Value, lines: Mapping[int, Resampling]) -> tf.Tensor:
    """Multiplies axes by sparse matrices, which the conversion does in one operation.

    Args:
      call: the node.
      x: the tensor.
      lines: {axis: its matrix}.
    """
    call.check_lengths(line.outputs for line in lines.values())
    y = tf.identity(x)
    for axis, line in lines.items():
        taps = line.taps()
        shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
        terms = [tf.gather(y, positions, axis=axis) for positions in taps.positions]
        if not taps.copies:
            weights = taps.weights.astype(tf.as_dtype(y.dtype).as_numpy_dtype)
            terms = [term * weight.reshape(shape) for term, weight in zip(terms, weights, strict=True)]
        y = terms[0] if len(terms) == 1 else tf.add_n(terms)
    return call.fused("Resampled", [x], [y], lines=lines)[0] if lines else y


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
    nearest: str
    cubic: float
    excludes: bool
    antialias: bool
    roi: tuple[float, float]

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


@operator("Resize")
def _resize(
    call: Call,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    wanted: Value | None = None,
) -> tf.Tensor:
    own, axes = sizes(x), [i % len(x.shape) for i in call.get("axes", range(len(x.shape)))]
    coordinates = call.get("coordinate_transformation_mode", "half_pixel")
    given = call.ints(wanted, "sizes") if wanted is not None else []
    if given:
        ratios = [np.float32(n) / np.float32(own[i]) for n, i in zip(given, axes, strict=True)]
        policy = call.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratio = (min if policy == "not_larger" else max)(ratios)
            ratios = [ratio] * len(axes)
            given = [math.floor(float(ratio) * own[i] + 0.5) for i in axes]
    else:
        ratios = list(np.ravel(call.numbers(scales, "scales")).astype(np.float32))
        given = [math.floor(own[i] * float(ratio)) for i, ratio in zip(axes, ratios, strict=True)]
    parts = dict.fromkeys(axes, (0.0, 1.0))
    if coordinates == "tf_crop_and_resize":
        if call.get("extrapolation_value", 0.0):
            raise call.refuse("extrapolates with a number other than 0", "use extrapolation_value=0")
        limits = np.ravel(call.numbers(roi, "regions")).astype(float)
        parts = dict(zip(axes, zip(limits[: len(axes)], limits[len(axes) :], strict=True), strict=True))
    lines = {
        i: Resized(
            own[i],
            n,
            float(ratio),
            call.get("mode", "nearest"),
            coordinates,
            call.get("nearest_mode", "round_prefer_floor"),
            call.get("cubic_coeff_a", -0.75),
            bool(call.get("exclude_outside", 0)),
            bool(call.get("antialias", 0)),
            parts[i],
        )
        for i, n, ratio in zip(axes, given, ratios, strict=True)
        if n != own[i] or ratio != 1 or parts[i] != (0, 1)
    }
    return resampled(call, x, lines)
