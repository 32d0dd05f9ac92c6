"""Operations that rearrange axes, join arrays and select parts of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.resize.padding import Padding
from mtf_imaging.engine.ops.resize.taps import Resampling
from mtf_imaging.networks.array import Array, axis_size, free_name, resampled, selection
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import (
    Interleaved,
    Unnamed,
    Value,
    as_array,
    elementwise,
    joint_axes,
    named,
    reshaped,
    sizes_of,
    transposed,
)

Named = Array | Unnamed

_SLICED_DIMS = 6  # TensorFlow slices at most 8 dimensions; stacks of slices have one or two more.


@operation("Shape", "ShapeN", ours="a constant")
def _shapes(call: Call, *values: Value) -> tuple[np.ndarray, ...]:
    dtype = call.get("out_type", tf.int32).as_numpy_dtype
    return tuple(np.array(sizes_of(x), dtype) for x in values)


@operation("Reshape", ours="mtf.reshape, if it is more than a merge of axes")
def _reshape(call: Call, x: Named, shape: Value) -> Named:
    sizes, total = call.ints(shape, "sizes"), math.prod(x.sizes)
    known = math.prod(n for n in sizes if n != -1)
    sizes = [total // known if n == -1 else n for n in sizes]
    if math.prod(sizes) != total:
        raise call.refuse(
            f"reshapes {list(x.sizes)} to {sizes}, which has another number of elements",
            "use the sizes with which the network was saved, or compute the new shape from tf.shape",
        )
    return reshaped(x, sizes)


@operation("ExpandDims", ours="x")
def _expand(call: Call, x: Named, axis: Value) -> Named:
    (at,) = call.ints(axis, "axes")
    at %= len(x.sizes) + 1
    if isinstance(x, Array):
        return Array(x.tensor, [*x.axes[:at], (), *x.axes[at:]])
    return reshaped(x, [*x.sizes[:at], 1, *x.sizes[at:]])


@operation("Squeeze", ours="x")
def _squeeze(call: Call, x: Named) -> Named:
    gone = {i % len(x.sizes) for i in call.get("squeeze_dims", [])} or {i for i, n in enumerate(x.sizes) if n == 1}
    if isinstance(x, Array):
        return Array(x.tensor, [axis for i, axis in enumerate(x.axes) if i not in gone]).without_loose()
    return reshaped(x, [n for i, n in enumerate(x.sizes) if i not in gone])


def _repeated(x: Named, sizes: Sequence[int]) -> Array:
    """Repeats axes of size 1, and elements of other axes, by factors that the tensor lacks."""
    array = as_array(x)
    axes = [*[()] * (len(sizes) - len(array.axes)), *array.axes]
    names = set(array.names)
    for i, size in enumerate(sizes):
        times = size // axis_size(axes[i])
        if times > 1:
            name = free_name("repeat", names)
            names.add(name)
            axes[i] = (mtf.Dimension(name, times), *axes[i])
    return Array(array.tensor, axes)


def _tile(call: Call, x: Named, multiples: Value) -> Array:
    return _repeated(x, [n * m for n, m in zip(x.sizes, call.ints(multiples, "multiples"), strict=True)])


# {operation: (its conversion, what computes it)}
_FORMULAS: dict[str, tuple[Callable[..., Any], str]] = {
    "BroadcastTo": (lambda call, x, shape: _repeated(x, call.ints(shape, "sizes")), "a repetition"),
    "Fill": (lambda call, shape, x: _repeated(reshaped(x, []), call.ints(shape, "sizes")), "mtf.constant"),
    "Rank": (lambda call, x: np.array(len(x.sizes), np.int32), "a constant"),
    "Size": (lambda call, x: np.array(math.prod(x.sizes), call.get("out_type", tf.int32).as_numpy_dtype), "a constant"),
    "Tile": (_tile, "a repetition; mi.ops.resize3d where it is an up-sampling"),
    "Transpose": (lambda call, x, order: transposed(x, call.ints(order, "axes")), "x"),
}
for _name, (_function, _ours) in _FORMULAS.items():
    operation(_name, ours=_ours)(_function)


@operation("ZerosLike", "OnesLike", ours="a constant")
def _like(call: Call, x: Named) -> np.ndarray:
    number = np.array(call.node.operation == "OnesLike", call.get("T").as_numpy_dtype)
    return np.broadcast_to(number, x.sizes)


def take(call: Call, x: Named, at: int, positions: range) -> Array:
    """Selects a range of positions along an axis.

    Spatial dimensions exchange halos. Along other dimensions, slices are gathered if they are split.
    """
    array = as_array(x)
    if len(positions) == array.sizes[at] and positions.step == 1:
        return array
    array = array.single(at)
    (dim,) = array.axes[at]
    if dim.name in call.spatial or positions.step != 1 or len(array.tensor.shape.dims) > _SLICED_DIMS:
        return resampled(array, {at: selection(dim.size, positions)}, "slice")
    axes = [*array.axes[:at], (mtf.Dimension(dim.name, len(positions)),), *array.axes[at + 1 :]]
    return Array(mtf.slice(array.tensor, positions.start, len(positions), dim.name), axes)


@operation("StridedSlice", ours="mtf.slice; spatial dimensions exchange halos")
def _strided_slice(call: Call, x: Named, begin: Value, end: Value, strides: Value) -> Named:
    starts, stops, steps = [call.ints(v, "positions") for v in (begin, end, strides)]
    array = as_array(x)

    def has(mask: str, i: int) -> bool:
        return bool(call.get(mask, 0) >> i & 1)

    items: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        part = slice(None if has("begin_mask", i) else start, None if has("end_mask", i) else stop, step)
        item = start if has("shrink_axis_mask", i) else part
        items.append(... if has("ellipsis_mask", i) else None if has("new_axis_mask", i) else item)
    items += [] if ... in items else [...]
    at = items.index(...)
    items[at : at + 1] = [slice(None)] * (len(array.sizes) + 1 - sum(item is not None for item in items))
    at, axes = 0, list[int | None]()  # the axes of `x` that the result has, and None for new ones
    for item in items:
        if item is None:
            axes.append(None)
            continue
        positions = range(array.sizes[at])[item]
        if isinstance(positions, int):
            array = take(call, array, at, range(positions, positions + 1))
        else:
            array = take(call, array, at, positions)
            axes.append(at)
        at += 1
    return Array(array.tensor, [() if at is None else array.axes[at] for at in axes]).without_loose()


@operation("Slice", ours="mtf.slice; spatial dimensions exchange halos")
def _slice(call: Call, x: Named, begin: Value, size: Value) -> Named:
    y = as_array(x)
    for at, (start, count) in enumerate(zip(call.ints(begin, "positions"), call.ints(size, "sizes"), strict=True)):
        y = take(call, y, at, range(start, y.sizes[at] if count == -1 else start + count))
    return y


def _parts(call: Call, x: Named, at: int, sizes: Sequence[int]) -> tuple[Array, ...]:
    ends = np.cumsum(sizes)
    return tuple(take(call, x, at, range(int(end) - size, int(end))) for end, size in zip(ends, sizes, strict=True))


@operation("Split", ours="mtf.slice; spatial dimensions exchange halos")
def _split(call: Call, axis: Value, x: Named) -> tuple[Array, ...]:
    at, number = call.ints(axis, "axes")[0] % len(x.sizes), call.get("num_split")
    return _parts(call, x, at, [x.sizes[at] // number] * number)


@operation("SplitV", ours="mtf.slice; spatial dimensions exchange halos")
def _split_v(call: Call, x: Named, sizes: Value, axis: Value) -> tuple[Array, ...]:
    at = call.ints(axis, "axes")[0] % len(x.sizes)
    counts = call.ints(sizes, "sizes")
    rest = x.sizes[at] - sum(n for n in counts if n != -1)
    return _parts(call, x, at, [rest if n == -1 else n for n in counts])


@operation("Unpack", ours="mtf.slice; spatial dimensions exchange halos")
def _unpack(call: Call, x: Named) -> tuple[Array, ...]:
    at = call.get("axis") % len(x.sizes)
    parts = _parts(call, x, at, [1] * x.sizes[at])
    return tuple(Array(y.tensor, [*y.axes[:at], *y.axes[at + 1 :]]).without_loose() for y in parts)


def join(call: Call, values: Sequence[Value], at: int) -> Array:
    """Concatenates arrays along an axis.

    A spatial dimension is concatenated as the sum of padded arrays, which exchanges halos.
    """
    shapes = [[n for i, n in enumerate(sizes_of(v)) if i != at] for v in values]
    if any(shape != shapes[0] for shape in shapes):
        raise call.refuse(
            f"joins {' and '.join(str(list(sizes_of(v))) for v in values)} along axis {at}, but other axes differ",
            "use sizes that the levels of the network divide",
        )
    arrays = [as_array(v) for v in values if not isinstance(v, np.ndarray)]
    arrays.sort(key=lambda array: not any(array is value for value in values))  # those with names of their own first
    lead = arrays[0].single(at, name="channels")
    others = list(joint_axes([lead, *arrays[1:]], lead.sizes))
    name = others[at][0].name
    parts = []
    for value in values:
        axes = [*others]
        axes[at] = (mtf.Dimension(name, sizes_of(value)[at]),)
        axes = [axis if axis_size(axis) == n else () for axis, n in zip(axes, sizes_of(value), strict=True)]
        parts.append(Array(named(call.mesh, value, axes).laid(), axes))
    total = sum(part.sizes[at] for part in parts)
    axes = [*parts[0].axes[:at], (mtf.Dimension(name, total),), *parts[0].axes[at + 1 :]]
    if name not in call.spatial:
        return Array(mtf.concat([part.tensor for part in parts], name), axes)
    start, padded = 0, []
    for part in parts:
        line = Padding(part.sizes[at], total, start, "constant")
        padded.append(resampled(part, {at: line}, "concat"))
        start += part.sizes[at]
    y: Value = padded[0]
    for part in padded[1:]:
        y = elementwise(mtf.add, y, part)
    assert isinstance(y, Array)
    return y


@operation("ConcatV2", ours="mtf.concat; along spatial dimensions, mi.ops.pad and a sum")
def _concat(call: Call, *values: Value) -> Named:
    *parts, axis = values
    return join(call, parts, call.ints(axis, "axes")[0] % len(sizes_of(parts[0])))


@operation("Pack", ours="mtf.concat")
def _pack(call: Call, *values: Value) -> Named:
    at = call.get("axis") % (len(sizes_of(values[0])) + 1)
    return join(call, [reshaped(v, [*sizes_of(v)[:at], 1, *sizes_of(v)[at:]]) for v in values], at)


@operation(
    "ExtractImagePatches", "ExtractVolumePatches", ours="mtf.concat of slices; spatial dimensions exchange halos"
)
def _extract_patches(call: Call, x: Array) -> Array:
    kernel, strides, rates = (call.get(name) or [1] * len(x.sizes) for name in ("ksizes", "strides", "rates"))
    spans = [(k - 1) * rate + 1 for k, rate in zip(kernel, rates, strict=True)]
    lines: dict[int, Resampling] = {}
    for i, (n, span, stride) in enumerate(zip(x.sizes, spans, strides, strict=True)):
        missing = max((-(-n // stride) - 1) * stride + span - n, 0) if call.get("padding") == "SAME" else 0
        if missing:
            lines[i] = Padding(n, n + missing, missing // 2, "constant")
    wide = resampled(x, lines, "pad")
    patches = []
    for offsets in np.ndindex(*kernel):
        patch = wide
        for i, offset in enumerate(offsets):
            first, past = offset * rates[i], wide.sizes[i] - spans[i] + offset * rates[i] + 1
            patch = take(call, patch, i, range(first, past, strides[i]))
        patches.append(patch)
    return join(call, patches, len(x.sizes) - 1)


@operation("GatherV2", ours="a selection; mtf.gather for indices that are computed")
def _gather(call: Call, x: Value, indices: Value, axis: Value) -> Named:
    at = call.ints(axis, "axes")[0] % len(sizes_of(x))
    if isinstance(indices, np.ndarray) and not isinstance(x, np.ndarray) and not call.get("batch_dims", 0):
        size = x.sizes[at]
        y = resampled(as_array(x), {at: selection(size, np.ravel(indices) % size)}, "gather")
        return reshaped(y, [*y.sizes[:at], *indices.shape, *y.sizes[at + 1 :]])
    if call.get("batch_dims", 0) or at or isinstance(indices, np.ndarray):
        raise call.refuse("selects by computed positions along an inner axis", "select rows, as an embedding does")
    where = as_array(indices)
    dim = mtf.Dimension(free_name("entries", where.names), sizes_of(x)[0])
    rest = [(mtf.Dimension(free_name("channels", where.names), n),) if n > 1 else () for n in sizes_of(x)[1:]]
    table = named(call.mesh, x, [(dim,), *rest])
    return Array(mtf.gather(table.tensor, where.without_loose().tensor, dim), [*where.axes, *rest])


@operation("SpaceToDepth", ours="mi.ops.space_to_depth")
@operation("DepthToSpace", ours="mi.ops.depth_to_space")
def _blocks(call: Call, x: Array) -> Array:
    if str(call.get("data_format", "NHWC")) != "NHWC":
        raise call.refuse("has channels first", "use channels last")
    array = x.single(1, 2, 3, name="axis")
    function = ops.depth_to_space if call.node.operation == "DepthToSpace" else ops.space_to_depth
    y = function(array.laid() if array.axes[0] else array.single(0).laid(), [call.get("block_size")] * 2)
    return Array(y, [array.axes[0], *((dim,) for dim in y.shape.dims[-3:])])


@operation("SpaceToBatchND", ours="a dilated convolution, if one follows; else mi.ops.pad and a reshape")
def _space_to_batch(call: Call, x: Named, block_shape: Value, paddings: Value) -> Interleaved:
    blocks, pads = call.ints(block_shape, "sizes"), np.reshape(call.ints(paddings, "paddings"), [-1, 2]).tolist()
    array, m = as_array(x), len(blocks)

    def split() -> Array:
        lines = {
            i: Padding(array.sizes[i], array.sizes[i] + sum(pair), pair[0], "constant")
            for i, pair in enumerate(pads, 1)
            if any(pair)
        }
        y = resampled(array, lines, "pad")
        batch, rest = y.sizes[0], y.sizes[m + 1 :]
        inner = [n // b for n, b in zip(y.sizes[1:], blocks)]
        cut = reshaped(y, [batch, *(n for pair in zip(inner, blocks) for n in pair), *rest])
        order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, 2 * m + 1 + len(rest))]
        return as_array(reshaped(transposed(cut, order), [batch * math.prod(blocks), *inner, *rest]))

    return Interleaved(array, blocks, pads, split)


@operation("BatchToSpaceND", ours="a dilated convolution, if it ends one; else a reshape and mtf.slice")
def _batch_to_space(call: Call, x: Named | Interleaved, block_shape: Value, crops: Value) -> Named:
    blocks, cut = call.ints(block_shape, "sizes"), np.reshape(call.ints(crops, "crops"), [-1, 2]).tolist()
    if isinstance(x, Interleaved) and x.convolve and x.blocks == blocks:
        pads = [(p[0] - c[0], p[1] - c[1]) for p, c in zip(x.pads, cut, strict=True)]
        return x.convolve(x.x, blocks, pads)
    y, m = x.array if isinstance(x, Interleaved) else as_array(x), len(blocks)
    batch, inner, rest = y.sizes[0] // math.prod(blocks), y.sizes[1 : m + 1], y.sizes[m + 1 :]
    split = reshaped(y, [*blocks, batch, *inner, *rest])
    order = [m, *(i for j in range(m) for i in (m + 1 + j, j)), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    whole = reshaped(transposed(split, order), [batch, *(n * b for n, b in zip(inner, blocks)), *rest])
    result = as_array(whole)
    for i, (before, after) in enumerate(cut, 1):
        result = take(call, result, i, range(before, result.sizes[i] - after))
    return result
