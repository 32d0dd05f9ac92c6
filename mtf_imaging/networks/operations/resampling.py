"""Padding and resizing. Every dimension may be split."""

import dataclasses

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.resize.interpolation import Interpolation
from mtf_imaging.engine.ops.resize.padding import Padding
from mtf_imaging.engine.ops.resize.taps import Resampling, Taps
from mtf_imaging.networks.array import Array, resampled, selection
from mtf_imaging.networks.interpolation import Resized
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
