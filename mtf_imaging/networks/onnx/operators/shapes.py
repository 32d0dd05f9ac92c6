"""Operators that compute sizes, rearrange axes, and join or select parts of tensors."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.networks.array import selection
from mtf_imaging.networks.onnx.operators.resizing import resampled
from mtf_imaging.networks.onnx.operators.shuffling import shuffled
from mtf_imaging.networks.onnx.registry import OPERATORS, Call, Value, operator, sizes

OPERATORS |= {
    "Concat": lambda call, *inputs: tf.concat(inputs, call.get("axis")),
    "ConstantOfShape": lambda call, shape: tf.fill(
        call.ints(shape, "sizes"), call.get("value", np.zeros(1, np.float32)).reshape([])
    ),
    "Expand": lambda call, x, shape: tf.broadcast_to(
        x, np.broadcast_shapes(tuple(sizes(x)), tuple(call.ints(shape, "sizes")))
    ),
    "Range": lambda call, *limits: tf.range(*(call.numbers(v, "limits") for v in limits)),
    "Shape": lambda call, x: np.array(sizes(x)[call.get("start", 0) : call.get("end")], np.int64),
    "Size": lambda call, x: np.array(np.prod(sizes(x), dtype=np.int64)),
    "Squeeze": lambda call, x, axes=None: tf.squeeze(x, call.axes(axes, [i for i, n in enumerate(sizes(x)) if n == 1])),
    "Tile": lambda call, x, repeats: tf.tile(x, call.ints(repeats, "repeats")),
    "Transpose": lambda call, x: tf.transpose(x, call.get("perm", [*range(len(x.shape))][::-1])),
}


@operator("Reshape")
def _reshape(call: Call, x: Value, shape: Value) -> tf.Tensor:
    wanted, own = call.ints(shape, "sizes"), sizes(x)
    keeps = not call.get("allowzero", 0)
    wanted = [own[i] if n == 0 and keeps else n for i, n in enumerate(wanted)]
    known, total = int(np.prod([n for n in wanted if n != -1])), int(np.prod(own))
    full = [total // max(known, 1) if n == -1 else n for n in wanted]
    if int(np.prod(full)) != total:
        raise call.refuse(
            f"reshapes {own} to {wanted}, which has another number of elements",
            "use the sizes with which the network was exported, or export it with dynamic axes",
        )
    y = tf.reshape(x, full)
    return y if tf.executing_eagerly() else shuffled(call, y)


@operator("Flatten")
def _flatten(call: Call, x: Value) -> tf.Tensor:
    axis = call.get("axis", 1)
    rows = int(np.prod(sizes(x)[: axis + len(x.shape) if axis < 0 else axis], dtype=np.int64))
    return tf.reshape(x, [rows, int(np.prod(sizes(x))) // rows])


@operator("Unsqueeze")
def _unsqueeze(call: Call, x: Value, axes: Value) -> tf.Tensor:
    rank = len(x.shape) + len(call.ints(axes, "axes"))
    for axis in sorted(i % rank for i in call.ints(axes, "axes")):
        x = tf.expand_dims(x, axis)
    return x


@operator("Split")
def _split(call: Call, x: Value, split: Value | None = None) -> Sequence[tf.Tensor]:
    axis, number = call.get("axis", 0), len(call.node.outputs)
    size = sizes(x)[axis]
    part = -(-size // number)
    parts = [min(part, size - i * part) for i in range(number)] if split is None else call.ints(split, "sizes")
    return tf.split(x, parts, axis)


@operator("Slice")
def _slice(
    call: Call, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value:
    first, end = call.ints(starts, "positions"), call.ints(ends, "positions")
    strides = [1] * len(first) if steps is None else call.ints(steps, "steps")
    for axis, start, stop, step in zip(call.axes(axes, range(len(first))), first, end, strides, strict=True):
        # Positions are limited as in Python, except those before the first one.
        size = sizes(x)[axis]
        chosen = range(size)[max(start, -size) : stop : step]
        call.check_lengths([len(chosen)])
        before = [slice(None)] * (axis % len(x.shape))
        x = x[(*before, slice(chosen.start, chosen.stop if chosen.stop >= 0 else None, step))]
    return x


@operator("Gather")
def _gather(call: Call, x: Value, indices: Value) -> tf.Tensor:
    axis = call.get("axis", 0)
    return tf.gather(x, indices % sizes(x)[axis] if isinstance(indices, np.ndarray) else indices, axis=axis)


@operator("Pad")
def _pad(call: Call, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None) -> tf.Tensor:
    mode, given = call.get("mode", "constant"), call.ints(pads, "paddings")
    call.check_lengths(given)
    chosen = [i % len(x.shape) for i in (range(len(x.shape)) if axes is None else call.ints(axes, "axes"))]
    pairs = dict(zip(chosen, zip(given[: len(chosen)], given[len(chosen) :], strict=True), strict=True))
    crops = [(max(-a, 0), max(-b, 0)) for a, b in (pairs.get(i, (0, 0)) for i in range(len(x.shape)))]
    if any(map(any, crops)):
        x = tf.slice(x, [a for a, _ in crops], [n - a - b for n, (a, b) in zip(sizes(x), crops, strict=True)])
    grown = [(max(a, 0), max(b, 0)) for a, b in (pairs.get(i, (0, 0)) for i in range(len(x.shape)))]
    if mode == "constant":
        number = 0 if value is None else call.numbers(value, "paddings").item()
        return tf.pad(x, grown, constant_values=number)
    lines = {
        i: selection(n, np.pad(np.arange(n), pair, mode))
        for i, (n, pair) in enumerate(zip(sizes(x), grown))
        if any(pair)
    }
    return resampled(call, x, lines)
