"""Convolutions and pools."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.ops.resize.taps import Resampling, Taps
from mtf_imaging.networks.onnx.operators.resizing import resampled
from mtf_imaging.networks.onnx.registry import Call, Value, channels_first, channels_last, operator, sizes

_MOST_TAPS = 1000  # of dilated pools, each of which is an operation


@dataclasses.dataclass(frozen=True)
class _Windows:
    """The windows of a node along its spatial axes.

    Attributes:
      kernel, strides, dilations: a number for each axis.
      pads: a pair (before, after) for each axis.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]]

    @property
    def extents(self) -> list[int]:
        """The number of voxels from the first to the last tap."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def attributes(self) -> dict[str, Any]:
        """Returns the settings as those of an operation of TensorFlow."""
        return {
            "ksize": [1, *self.kernel, 1],
            "strides": [1, *self.strides, 1],
            "dilations": [1, *self.dilations, 1],
            "padding": "EXPLICIT",
            "explicit_paddings": [n for pair in [(0, 0), *self.pads, (0, 0)] for n in pair],
        }

    def fused(self, call: Call, names: Sequence[str], inputs: Sequence[Value], y: tf.Tensor) -> tf.Tensor:
        """Returns `y`, which one operation of the conversion computes.

        Args:
          call: the node.
          names: the operation for at most two axes, and that for three.
          inputs: its inputs.
          y: the result with channels last, computed by TensorFlow.
        """
        return call.fused(names[len(self.kernel) > 2], inputs, [y], **self.attributes())[0]


def _windows(call: Call, shape: Sequence[int], kernel: Sequence[int]) -> _Windows:
    """Returns the windows of a node for an image of spatial sizes `shape`."""
    n, mode = len(kernel), call.get("auto_pad", "NOTSET")
    strides, dilations = call.get("strides", [1] * n), call.get("dilations", [1] * n)
    if mode.startswith("SAME"):
        pads = []
        for size, k, s, d in zip(shape, kernel, strides, dilations, strict=True):
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            small, large = total // 2, total - total // 2
            pads.append((small, large) if mode == "SAME_UPPER" else (large, small))
    else:
        given = call.get("pads", [0] * 2 * n) if mode == "NOTSET" else [0] * 2 * n
        pads = list(zip(given[:n], given[n:], strict=True))
    call.check_lengths([*kernel, *strides, *dilations, *itertools.chain(*pads)])
    return _Windows(list(kernel), list(strides), list(dilations), pads)


def _padded(image: tf.Tensor, pads: Sequence[tuple[int, int]], value: float = 0) -> tf.Tensor:
    """Pads, or crops by negative numbers, the spatial axes of an image with channels last."""
    image = tf.pad(image, [(0, 0), *((max(a, 0), max(b, 0)) for a, b in pads), (0, 0)], constant_values=value)
    crops = [(0, 0), *((max(-a, 0), max(-b, 0)) for a, b in pads), (0, 0)]
    if not any(map(any, crops)):
        return image
    return tf.slice(image, [a for a, _ in crops], [n - a - b for n, (a, b) in zip(sizes(image), crops)])


def _every(image: tf.Tensor, strides: Sequence[int]) -> tf.Tensor:
    """Returns every n-th voxel. TensorFlow has no strides with dilations, nor strides beyond the window of a pool."""
    return image[(slice(None), *(slice(None, None, s) for s in strides), slice(None))]


def _convolved(call: Call, image: tf.Tensor, kernel: Value, windows: _Windows) -> tf.Tensor:
    """Returns a convolution of an image with channels last with a kernel `[spatial..., in / groups, out]`."""
    if len(windows.kernel) == 1:  # convolutions of groups have at least two axes
        wide = _Windows([*windows.kernel, 1], [*windows.strides, 1], [*windows.dilations, 1], [*windows.pads, (0, 0)])
        return tf.squeeze(_convolved(call, tf.expand_dims(image, 2), tf.expand_dims(kernel, 1), wide), [2])
    y = tf.nn.convolution(_padded(image, windows.pads), kernel, 1, "VALID", dilations=windows.dilations)
    return windows.fused(call, ["Conv2D", "Conv3D"], [image, kernel], _every(y, windows.strides))


def _with_bias(y: tf.Tensor, bias: Value | None) -> tf.Tensor:
    """Adds a bias to an image with channels last, and returns it with channels first."""
    return channels_first(y if bias is None else tf.nn.bias_add(y, bias))


@operator("Conv")
def _conv(call: Call, x: Value, kernel: Value, bias: Value | None = None) -> tf.Tensor:
    windows = _windows(call, sizes(x)[2:], sizes(kernel)[2:])
    weights = tf.transpose(kernel, [*range(2, len(kernel.shape)), 1, 0])
    return _with_bias(_convolved(call, channels_last(x), weights, windows), bias)


@dataclasses.dataclass(frozen=True)
class _Spread(Resampling):
    """Inserts `stride - 1` zeros between voxels."""

    stride: int

    def taps(self) -> Taps:
        voxels, rest = np.divmod(np.arange(self.outputs), self.stride)
        return Taps(voxels[np.newaxis].astype(np.int32), (rest == 0)[np.newaxis].astype(float))


@operator("ConvTranspose")
def _conv_transpose(call: Call, x: Value, kernel: Value, bias: Value | None = None) -> tf.Tensor:
    shape, groups, n = sizes(x)[2:], call.get("group", 1), len(x.shape) - 2
    windows = _windows(call, shape, sizes(kernel)[2:])
    more = call.get("output_padding", [0] * n)
    full = [(size - 1) * s + e for size, s, e in zip(shape, windows.strides, windows.extents, strict=True)]
    wanted, mode = call.get("output_shape"), call.get("auto_pad", "NOTSET")
    if wanted is None and mode.startswith("SAME"):
        wanted = [size * s for size, s in zip(shape, windows.strides, strict=True)]
    pads = windows.pads
    if wanted is not None:
        totals = [f + m - w for f, m, w in zip(full, more, wanted[-n:], strict=True)]
        pads = [(t // 2, t - t // 2) if mode == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]
    pads = [(a, b - m) for (a, b), m in zip(pads, more, strict=True)]
    outputs = [f - a - b for f, (a, b) in zip(full, pads, strict=True)]
    image = channels_last(x)
    if groups == 1:
        weights = tf.transpose(kernel, [*range(2, n + 2), 1, 0])
        case, out = sizes(image)[0], sizes(kernel)[1]
        options = windows.strides, "VALID", None, windows.dilations
        whole = tf.nn.conv_transpose(image, weights, [case, *full, out], *options)
        given = [np.array([case, *outputs, out], np.int32), weights, image]
        y, names = _padded(whole, [(-a, -b) for a, b in pads]), ["Conv2DBackpropInput", "Conv3DBackpropInputV2"]
        return _with_bias(dataclasses.replace(windows, pads=pads).fused(call, names, given, y), bias)
    # There is no transposed convolution with groups: a convolution of the image with zeros between its voxels.
    into, out = sizes(kernel)[:2]
    spread = {
        i: _Spread(size, (size - 1) * s + 1, s)
        for i, (size, s) in enumerate(zip(shape, windows.strides, strict=True), 1)
        if s > 1
    }
    weights = tf.reshape(kernel, [groups, into // groups, out, *windows.kernel])
    weights = tf.transpose(weights, [*range(3, n + 3), 1, 0, 2])
    weights = tf.reshape(weights, [*windows.kernel, into // groups, groups * out])
    pads = [(e - 1 - a, e - 1 - b) for e, (a, b) in zip(windows.extents, pads, strict=True)]
    plain = _Windows(windows.kernel, [1] * n, windows.dilations, pads)
    return _with_bias(_convolved(call, resampled(call, image, spread), tf.reverse(weights, range(n)), plain), bias)


def _ceiled(windows: _Windows, shape: Sequence[int]) -> _Windows:
    """Returns windows with more padding at the end, so that the number of outputs is rounded up.

    A window that would begin beyond the image and its padding is left out.
    """
    pads = []
    for size, e, s, (a, b) in zip(shape, windows.extents, windows.strides, windows.pads, strict=True):
        outputs = -(-(size + a + b - e) // s) + 1
        outputs -= (outputs - 1) * s >= size + a
        pads.append((a, max(b, (outputs - 1) * s + e - size - a)))
    return dataclasses.replace(windows, pads=pads)


def _taps(call: Call, padded: tf.Tensor, windows: _Windows) -> list[tf.Tensor]:
    """Returns the image of each tap of dilated windows."""
    if math.prod(windows.kernel) > _MOST_TAPS:
        raise call.refuse(
            f"has dilated windows of {windows.kernel}, and the limit is {_MOST_TAPS} voxels", "pool twice"
        )
    counts = [
        (size - e) // s + 1 for size, e, s in zip(sizes(padded)[1:-1], windows.extents, windows.strides, strict=True)
    ]
    images = []
    for tap in itertools.product(*map(range, windows.kernel)):
        at = [slice(t * d, t * d + (c - 1) * s + 1, s)
              for t, d, c, s in zip(tap, windows.dilations, counts, windows.strides, strict=True)]  # fmt: skip
        images.append(padded[(slice(None), *at, slice(None))])
    return images


@operator("MaxPool")
def _max_pool(call: Call, x: Value) -> tf.Tensor:
    shape, image = sizes(x)[2:], channels_last(x)
    windows = _windows(call, shape, call.get("kernel_shape"))
    windows = _ceiled(windows, shape) if call.get("ceil_mode", 0) else windows
    padded = _padded(image, windows.pads, tf.as_dtype(x.dtype).min)
    if max(windows.dilations) > 1:
        return channels_first(functools.reduce(tf.maximum, _taps(call, padded, windows)))
    y = _every(tf.nn.pool(padded, windows.kernel, "MAX"), windows.strides)
    return channels_first(windows.fused(call, ["MaxPool", "MaxPool3D"], [image], y))


@operator("AveragePool")
def _average_pool(call: Call, x: Value) -> tf.Tensor:
    shape, image = sizes(x)[2:], channels_last(x)
    windows = _windows(call, shape, call.get("kernel_shape"))
    pads = windows.pads
    windows = _ceiled(windows, shape) if call.get("ceil_mode", 0) else windows
    if call.get("count_include_pad", 0):
        image = _padded(image, pads)
        shape = sizes(image)[1:-1]
        windows = dataclasses.replace(
            windows, pads=[(0, b - before) for (_, b), (_, before) in zip(windows.pads, pads)]
        )

    def sums(x: tf.Tensor) -> tf.Tensor:
        """Returns the sums of windows, divided by a number."""
        padded = _padded(x, windows.pads)
        if max(windows.dilations) > 1:
            return tf.add_n(_taps(call, padded, windows))
        return _every(tf.nn.pool(padded, windows.kernel, "AVG"), windows.strides)

    y = sums(image) / sums(np.ones([1, *shape, 1], image.dtype.as_numpy_dtype))
    if max(windows.dilations) > 1:
        return channels_first(y)
    return channels_first(windows.fused(call, ["AvgPool", "AvgPool3D"], [image], y))
