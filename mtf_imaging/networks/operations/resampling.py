"""Padding and resizing. Every dimension may be split."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.resize.interpolation import Interpolation
from mtf_imaging.engine.ops.resize.padding import Padding
from mtf_imaging.engine.ops.resize.taps import Resampling, Taps
from mtf_imaging.networks.array import Array, resampled, selection
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import Unnamed, Value, as_array, elementwise


@operation("Pad", "PadV2", "MirrorPad", ours="mi.ops.pad")
def _pad(call: Call, x: Array | Unnamed, paddings: Value, value: Value | None = None) -> Value:
    array = as_array(x)
    pairs = [tuple(pair) for pair in call.numbers(paddings, "paddings").tolist()]
    mode = call.get("mode", "CONSTANT").lower()
    lines: dict[int, Resampling] = {
        i: Padding(n, n + sum(pair), pair[0], mode)
        for i, (n, pair) in enumerate(zip(array.sizes, pairs, strict=True))
        if any(pair)
    }
    y = resampled(array, lines, "pad")
    number = 0 if value is None else call.numbers(value, "paddings").item()
    if not number or not lines:
        return y
    result: Value = y
    for i, line in lines.items():
        inside = np.reshape(line.taps().weights[0] > 0, [-1 if j == i else 1 for j in range(len(y.sizes))])
        result = elementwise(lambda y, inside: mtf.where(inside, y, number), result, inside)
    return result


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


class _Resized(Resized):
    """A resize of TensorFlow: bicubic (Keys 1981), or as in TensorFlow 1 without `half_pixel_centers`."""

    def centers(self) -> np.ndarray:
        scale = np.float32(self.size) / np.float32(self.outputs)
        if self.mode != "cubic":
            return np.arange(self.outputs, dtype=np.float32) * scale
        # TensorFlow looks up the weights in a table of 1024 steps.
        return np.rint(((np.arange(self.outputs) + 0.5) * float(scale) - 0.5) * 1024) / 1024


@dataclasses.dataclass(frozen=True)
class _Mean(Resampling):
    """A resize whose outputs are the means of the parts of the input that they cover."""

    def taps(self) -> Taps:
        # In units of 1 / outputs voxels, all edges are whole numbers.
        starts = np.arange(self.outputs) * self.size
        first, past = starts // self.outputs, -(-(starts + self.size) // self.outputs)
        positions = first + np.arange((past - first).max())[:, np.newaxis]
        upper = np.minimum((positions + 1) * self.outputs, starts + self.size)
        weights = np.maximum(upper - np.maximum(positions * self.outputs, starts), 0) / self.size
        return Taps(np.minimum(positions, self.size - 1).astype(np.int32), weights)


@operation("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea", ours="mi.ops.resize2d")
def _resize(call: Call, x: Array, size: Value) -> Array:
    outputs, kind = call.ints(size, "sizes"), call.node.operation
    aligned, halves = bool(call.get("align_corners")), bool(call.get("half_pixel_centers"))

    def line(size: int, outputs: int) -> Resampling:
        if kind == "ResizeArea":
            if aligned:
                raise call.refuse("has align_corners=True", "use tf.image.resize of TensorFlow 2")
            return _Mean(size, outputs)
        if kind == "ResizeBicubic":
            if aligned or not halves:
                raise call.refuse("has half_pixel_centers=False", "use tf.image.resize of TensorFlow 2")
            return _Resized(size, outputs, outputs / size, "cubic", "half_pixel")
        mode = "linear" if kind == "ResizeBilinear" else "nearest"
        if not (aligned or halves):
            return _Resized(size, outputs, outputs / size, mode, "asymmetric")
        return Interpolation(size, outputs, mode, aligned)

    lines = {i: line(x.sizes[i], n) for i, n in enumerate(outputs, 1) if x.sizes[i] != n}
    y = resampled(x, lines, "resize")
    # All of TensorFlow's kernels but the nearest one return float32 whatever they are given.
    if kind == "ResizeNearestNeighbor" or y.dtype == tf.float32:
        return y
    return Array(mtf.cast(y.tensor, tf.float32), y.axes)


@operation("ReverseV2", ours="a selection")
def _reverse(call: Call, x: Array | Unnamed, axes: Value) -> Array:
    array = as_array(x)
    reversed_axes = {i % len(array.sizes) for i in call.ints(axes, "axes")}
    lines = {i: selection(array.sizes[i], range(array.sizes[i])[::-1]) for i in reversed_axes}
    return resampled(array, lines, "reverse")


@operation("Roll", ours="a selection")
def _roll(call: Call, x: Array | Unnamed, shifts: Value, axes: Value) -> Array:
    array = as_array(x)
    by_axis: dict[int, int] = {}
    for shift, axis in zip(call.ints(shifts, "shifts"), call.ints(axes, "axes"), strict=True):
        at = axis % len(array.sizes)
        by_axis[at] = by_axis.get(at, 0) + shift
    lines = {i: selection(array.sizes[i], np.roll(np.arange(array.sizes[i]), n)) for i, n in by_axis.items()}
    return resampled(array, lines, "roll")
