"""Resize in all its modes, and other operators that multiply axes by sparse matrices."""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.ops.resize.taps import Resampling
from mtf_imaging.networks.onnx.registry import Call, Value, operator, sizes
from mtf_imaging.networks.operations.resampling import Resized


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
