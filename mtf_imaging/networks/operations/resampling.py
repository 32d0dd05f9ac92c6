"""Padding and resizing. Every dimension may be split."""

import dataclasses

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
class _Legacy(Resampling):
    """A resize whose output o lies at `o size / outputs`, as in TensorFlow 1 without `half_pixel_centers`."""

    is_linear: bool

    def taps(self) -> Taps:
        scale = np.float32(self.size) / np.float32(self.outputs)
        centers = np.arange(self.outputs, dtype=np.float32) * scale
        below = np.minimum(np.floor(centers).astype(np.int32), self.size - 1)
        if not self.is_linear:
            return Taps(below[np.newaxis], np.ones([1, self.outputs]))
        rest = (centers - below).astype(np.float64)
        return Taps(np.array([below, np.minimum(below + 1, self.size - 1)], np.int32), np.array([1 - rest, rest]))


@dataclasses.dataclass(frozen=True)
class _Cubic(Resampling):
    """A bicubic resize with centers at halves (Keys 1981, a = -0.5), whose weights at the border are normalized."""

    def taps(self) -> Taps:
        scale = np.float32(self.size) / np.float32(self.outputs)
        centers = (np.arange(self.outputs) + 0.5) * float(scale) - 0.5
        below = np.floor(centers).astype(np.int64)
        # TensorFlow looks up the weights in a table of 1024 steps.
        rest = np.rint((centers - below) * 1024) / 1024
        positions = below + np.arange(-1, 3)[:, np.newaxis]
        distance = np.abs(np.arange(-1, 3)[:, np.newaxis] - rest)
        a = -0.5
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
        weights = np.where((positions >= 0) & (positions < self.size), weights, 0)
        return Taps(np.clip(positions, 0, self.size - 1).astype(np.int32), weights / weights.sum(0))


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
            return _Cubic(size, outputs)
        if not (aligned or halves):
            return _Legacy(size, outputs, kind == "ResizeBilinear")
        return Interpolation(size, outputs, "linear" if kind == "ResizeBilinear" else "nearest", aligned)

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
