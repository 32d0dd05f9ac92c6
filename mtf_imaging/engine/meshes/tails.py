"""Tails: the elements of a slice beyond its true extent.

A dimension of n elements over N processors is split into slices of `ceil(n / N)` elements. If N does not divide n, the
last slices have fewer true elements, or none: 5 elements over 4 processors are slices of 2, 2, 1 and 0 elements. All
slices are stored with the same shape. The elements beyond the true extent are the tail of a slice, and their values are
undefined. Elementwise operations compute with them. Every operation that combines elements along the dimension replaces
them first, or cuts them off. It uses a selection, because a product would turn NaN times 0 into NaN.
"""

import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import MOST_AXES
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

_ROW = 16  # minimum bytes of a row that is written by its index
_WRITABLE = (tf.float32, tf.float64, tf.int32, tf.int64)


class Tail(NamedTuple):
    """A dimension that is split into uneven slices.

    Attributes:
      dim: position of the dimension in the shape of a slice.
      axis: the mesh axis that splits it.
      whole: number of elements in the whole dimension.
      size: number of elements in a stored slice.
    """

    dim: int
    axis: int
    whole: int
    size: int


def lowest(dtype: tf.DType) -> float:
    """Returns the number that has no effect on a maximum: minus infinity, which `dtype.min` exceeds, or an integer."""
    return -math.inf if dtype.is_floating else dtype.min


def highest(dtype: tf.DType) -> float:
    """Returns the number that has no effect on a minimum."""
    return math.inf if dtype.is_floating else dtype.max


def tails_of(mesh: ShardMeshImpl, shape: mtf.Shape, names: Collection[str] | None = None) -> list[Tail]:
    """Returns the dimensions of a shape that are split into uneven slices.

    Args:
      mesh: a `ShardMeshImpl`.
      shape: shape of the whole tensor.
      names: names of the dimensions to consider. None considers all dimensions.
    """
    sizes = zip(shape.dims, mesh.split_axes(shape), mesh.slice_shape(shape), strict=True)
    return [
        Tail(i, axis, dim.size, size)
        for i, (dim, axis, size) in enumerate(sizes)
        if axis is not None and dim.size % mesh.shape[axis].size and (names is None or dim.name in names)
    ]


def fill(mesh: ShardMeshImpl, x: LaidOutTensor, tails: Sequence[Tail], value: float) -> LaidOutTensor:
    """Returns a laid-out tensor with `value` in its tails. Devices whose slices have no tails do nothing."""

    def local(shard: Sequence[int], stack: tf.Tensor) -> tf.Tensor:
        # A stack of one slice is equal on all processors of the shard, so the first processor represents all.
        masks = masks_of(shard, stack.shape[0])
        return _filled(stack, masks, value) if masks else stack

    def masks_of(shard: Sequence[int], number: int) -> dict[int, np.ndarray]:
        return _masks(tails, mesh.grid.processor_coordinates(shard)[:number])

    def key(shard: Sequence[int]) -> tuple:
        return tuple((dim, mask.tobytes()) for dim, mask in masks_of(shard, x.stack_size).items())

    return mesh.map_shards(local, x, key=key)


def _masks(tails: Sequence[Tail], processors: Sequence[Sequence[int]]) -> dict[int, np.ndarray]:
    """Returns {dimension: bool array [processors, elements of a slice]}, true in the tails, where there are any."""
    masks = {}
    for tail in tails:
        first = np.array([[at[tail.axis] * tail.size] for at in processors])
        beyond = first + np.arange(tail.size) >= tail.whole
        if beyond.any():
            masks[tail.dim] = beyond
    return masks


def _filled(stack: tf.Tensor, masks: Mapping[int, np.ndarray], value: float) -> tf.Tensor:
    """Fills the masked elements of a stack.

    A row is the contiguous memory of the dimensions after the last masked one. Writing the masked rows takes as long as
    a copy of the stack, and does not need a copy if no other operation reads the stack. A selection took twice as long
    on a CPU. It is used if rows are so short that their indices would need as much memory as the rows, and for dtypes
    whose rows TensorFlow (2.21) cannot write on a GPU.
    """
    last = max(masks)
    lead, inner = stack.shape.as_list()[: last + 2], math.prod(stack.shape[last + 2 :])
    wide = [_along(mask, dim, len(lead)) for dim, mask in masks.items()]
    rows, value = tf.reshape(stack, [-1, inner]), tf.cast(value, stack.dtype)
    if inner * stack.dtype.size < _ROW or stack.dtype not in _WRITABLE:
        condition = functools.reduce(tf.logical_or, map(tf.constant, wide), tf.zeros(lead, tf.bool))
        filled = tf.where(tf.reshape(condition, [-1, 1]), value, rows)
    else:
        index = np.flatnonzero(functools.reduce(np.logical_or, wide, np.zeros(lead, bool)))[:, np.newaxis]
        filled = tf.tensor_scatter_nd_update(rows, index, tf.fill([len(index), inner], value))
    return tf.reshape(filled, stack.shape)


def _along(mask: np.ndarray, dim: int, ndims: int) -> np.ndarray:
    """Reshapes a mask `[processors, elements]` of slice dimension `dim` so that it broadcasts to `ndims` dimensions."""
    shape = [mask.shape[0]] + [1] * (ndims - 1)
    shape[dim + 1] = mask.shape[1]
    return mask.reshape(shape)


class Region(NamedTuple):
    """Processors of a shard whose slices have the same true extent.

    Attributes:
      places: {mesh axis: positions within the shard}, for the axes of the tails.
      sizes: {dimension of a slice: number of true elements}.
    """

    places: dict[int, list[int]]
    sizes: dict[int, int]


def regions(mesh: ShardMeshImpl, tails: Sequence[Tail], shard: Sequence[int]) -> list[Region]:
    """Returns the regions of a shard, without the slices that have no true element."""
    coordinates = np.array(mesh.grid.processor_coordinates(shard))
    options = []
    for tail in tails:
        own = np.unique(coordinates[:, tail.axis])
        extents = np.clip(tail.whole - own * tail.size, 0, tail.size)
        options.append([(tail, int(size), np.flatnonzero(extents == size).tolist()) for size in {*extents} - {0}])
    return [
        Region({tail.axis: places for tail, _, places in choice}, {tail.dim: size for tail, size, _ in choice})
        for choice in itertools.product(*options)
    ]


def repeat_last(mesh: ShardMeshImpl, x: LaidOutTensor, tails: Sequence[Tail]) -> LaidOutTensor:
    """Returns a laid-out tensor that repeats the last true element in its tails.

    The elements of slices without a true element stay undefined.
    """

    def index_of(tail: Tail, at: Sequence[int]) -> np.ndarray:
        last = np.clip(tail.whole - at[tail.axis] * tail.size - 1, 0, tail.size - 1)
        return np.minimum(np.arange(tail.size), last).astype(np.int32)

    for tail in tails:
        index = mesh.laid_out_constant(functools.partial(index_of, tail))
        x = mesh.map_stacks(functools.partial(_take, tail.dim + 1), x, mesh.canonical_like(index, x))
    return x


def _take(axis: int, stack: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    return tf.gather(stack, index, axis=axis, batch_dims=1)


def valid_integers(mesh: ShardMeshImpl, x: LaidOutTensor, shape: mtf.Shape) -> LaidOutTensor:
    """Fills the tails of integers with values that are safe as divisors and indices.

    A tail repeats the last true element of its slice. A slice without a true element is filled with 1.

    Args:
      mesh: a `ShardMeshImpl`.
      x: a laid-out tensor of integers.
      shape: shape of the whole tensor.
    """
    uneven = tails_of(mesh, shape)
    return repeat_last(mesh, fill(mesh, x, uneven, 1), uneven) if uneven else x


def zero_empty_slices(mesh: ShardMeshImpl, x: LaidOutTensor, tails: Sequence[Tail]) -> LaidOutTensor:
    """Returns a laid-out tensor that is 0 on processors whose slices of other tensors have no true element.

    Args:
      mesh: a `ShardMeshImpl`.
      x: a laid-out tensor with a slice for each processor.
      tails: dimensions of the other tensors.
    """

    def empty_in(shard: Sequence[int]) -> list[bool]:
        coordinates = mesh.grid.processor_coordinates(shard)
        return [any(at[tail.axis] * tail.size >= tail.whole for tail in tails) for at in coordinates]

    def local(shard: Sequence[int], stack: tf.Tensor) -> tf.Tensor:
        empty = empty_in(shard)
        if not any(empty):
            return stack
        return tf.where(np.reshape(empty, [-1] + [1] * (stack.shape.ndims - 1)), tf.zeros([], stack.dtype), stack)

    return mesh.map_shards(local, x, key=lambda shard: tuple(empty_in(shard)))


def gather(mesh: ShardMeshImpl, x: LaidOutTensor, dims: Mapping[int, int], sizes: Mapping[int, int]) -> LaidOutTensor:
    """Gathers slices along mesh dimensions, without tails.

    Args:
      mesh: a `ShardMeshImpl`.
      x: a laid-out tensor.
      dims: {mesh axis: slice dimension to concatenate}.
      sizes: {slice dimension: number of elements in the whole dimension}.
    """
    x = mesh.gather(x, dims)
    return resize(mesh, x, {dim: sizes[dim] for dim in dims.values()})


def scatter(mesh: ShardMeshImpl, x: LaidOutTensor, dims: Mapping[int, int]) -> LaidOutTensor:
    """Splits whole dimensions over mesh dimensions into slices of `ceil(n / N)`; the inverse of `gather`.

    Args:
      mesh: a `ShardMeshImpl`.
      x: a laid-out tensor.
      dims: {mesh axis: slice dimension to split}.
    """
    parts = {dim: mesh.shape[axis].size for axis, dim in dims.items()}
    sizes = x.slice_shape
    return mesh.scatter(resize(mesh, x, {dim: -(-sizes[dim] // n) * n for dim, n in parts.items()}), dims)


def resize(mesh: ShardMeshImpl, x: LaidOutTensor, sizes: Mapping[int, int]) -> LaidOutTensor:
    """Cuts off or appends elements at the end of slice dimensions; `sizes` is {slice dimension: new size}.

    The values of appended elements are undefined.
    """
    old = x.slice_shape
    if all(old[dim] == size for dim, size in sizes.items()):
        return x

    def local(stack: tf.Tensor) -> tf.Tensor:
        kept, pads = stack.shape.as_list(), [[0, 0] for _ in stack.shape]
        if len(kept) > MOST_AXES:
            for dim, size in sizes.items():
                lines = tf.reshape(stack, [-1, old[dim], math.prod(kept[dim + 2 :])])
                kept[dim + 1] = size
                stack = tf.reshape(tf.pad(lines[:, :size], [[0, 0], [0, max(size - old[dim], 0)], [0, 0]]), kept)
            return stack
        for dim, size in sizes.items():
            kept[dim + 1], pads[dim + 1][1] = min(size, old[dim]), max(size - old[dim], 0)
        stack = tf.slice(stack, [0] * len(kept), kept)
        return tf.pad(stack, pads) if any(after for _, after in pads) else stack

    return mesh.map_stacks(local, x)
