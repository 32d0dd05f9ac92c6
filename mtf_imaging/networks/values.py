"""The values of a network's nodes: named arrays, arrays without names, and NumPy arrays, and how they are combined."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array, Axis, axis_size, free_name, reshape


class Unnamed:
    """An array that takes its names from the array with which it is first combined.

    Weights, random numbers and functions of them have positions only. Combined with an image, they take the names of
    its dimensions, so a layout splits them like the image.

    Args:
      sizes: the sizes of the axes.
      dtype: the dtype.
      build: a function that returns the `Array` for the factors of each axis.
    """

    def __init__(self, sizes: Iterable[int], dtype: tf.DType, build: Callable[[tuple[Axis, ...]], Array]) -> None:
        self.sizes, self.dtype = tuple(sizes), dtype
        self._build = functools.lru_cache(None)(build)

    def named(self, axes: Iterable[Axis]) -> Array:
        """Returns the array with some factors for each axis."""
        axes = tuple(map(tuple, axes))
        return self._build(axes).with_axes(axes)

    def default(self) -> Array:
        """Returns the array with names of its own."""
        return self.named((mtf.Dimension(f"axis_{i}", n),) if n > 1 else () for i, n in enumerate(self.sizes))


@dataclasses.dataclass(frozen=True, eq=False)
class Interleaved:
    """The result of SpaceToBatchND, and perhaps of a convolution of it, which BatchToSpaceND turns into a dilated one.

    Attributes:
      x: the image before SpaceToBatchND.
      blocks: the sizes of the blocks, along the first spatial axes.
      pads: the padding (before, after) of these axes.
      split: a function that returns the result of SpaceToBatchND.
      convolve: a convolution that follows, a function of (image, dilations or None, padding or None); None if there is
        none.
    """

    x: Array
    blocks: list[int]
    pads: Sequence[Sequence[int]]
    split: Callable[[], Array]
    convolve: Callable[..., Array] | None = None

    @property
    def array(self) -> Array:
        """The value as an array, for all operations that are not a part of the pattern."""
        return self.convolve(self.split(), None, None) if self.convolve else self.split()


Value = Array | Unnamed | np.ndarray


def constant(mesh: mtf.Mesh, value: np.ndarray, axes: Sequence[Axis]) -> Array:
    """Returns a constant with some factors for each axis."""
    dims = [dim for axis in axes for dim in axis]
    array = np.reshape(value, [dim.size for dim in dims])
    return Array(mtf.constant(mesh, array if dims else array.item(), mtf.Shape(dims), tf.as_dtype(value.dtype)), axes)


def named(mesh: mtf.Mesh, value: Value, axes: Sequence[Axis]) -> Array:
    """Returns any value with some factors for each axis."""
    if isinstance(value, Array):
        return value.with_axes(axes)
    return value.named(axes) if isinstance(value, Unnamed) else constant(mesh, value, axes)


def sizes_of(value: Value) -> tuple[int, ...]:
    """Returns the sizes of the axes of a value."""
    return value.shape if isinstance(value, np.ndarray) else value.sizes


def dtype_of(value: Value) -> tf.DType:
    """Returns the dtype of a value."""
    return tf.as_dtype(value.dtype)


def as_array(value: "Array | Unnamed") -> Array:
    """Returns a value with names."""
    return value.default() if isinstance(value, Unnamed) else value


def joint_axes(arrays: Sequence[Array], sizes: Sequence[int], last: str = "channels") -> tuple[Axis, ...]:
    """Returns the factors of an elementwise result.

    The first array that has an axis gives it its factors. If two axes then have the same name, the later one is
    renamed.

    Args:
      arrays: the arrays with names.
      sizes: the sizes of the result.
      last: the name of the last axis if no array has it.
    """
    axes: list[Axis] = []
    for i, size in enumerate(sizes, -len(sizes)):
        own = [(a, a.axes[i]) for a in arrays if -i <= len(a.axes) and axis_size(a.axes[i]) == size and a.axes[i]]
        whole = [axis for a, axis in own if a.is_whole(i)]
        physical = [axis for a, axis in own if a.present(i)]
        axes.append(next(iter([*whole, *physical, *(axis for _, axis in own)]), ()))
    taken = {dim.name for axis in axes for dim in axis}
    seen: set[str] = set()
    for i, axis in enumerate(axes):
        if axis_size(axis) != sizes[i]:
            axis = (mtf.Dimension(free_name(last if i == len(axes) - 1 else f"axis_{i}", taken), sizes[i]),)
        elif any(dim.name in seen for dim in axis):
            axis = () if axis_size(axis) == 1 else (mtf.Dimension(free_name(axis[0].name, taken), sizes[i]),)
        axes[i] = axis
        seen |= {dim.name for dim in axis}
        taken |= seen
    return tuple(axes)


def elementwise(function: Callable[..., mtf.Tensor], *values: Value) -> Array | Unnamed:
    """Applies a function to tensors that are aligned by name, with the axes of NumPy's broadcasting.

    Args:
      function: a function of `mtf.Tensor`s and numbers, whose result has the dimensions of all tensors.
      *values: the operands, at least one of which is not a NumPy array.
    """
    sizes = np.broadcast_shapes(*map(sizes_of, values))
    arrays = [value for value in values if isinstance(value, Array)]

    def apply(axes: tuple[Axis, ...]) -> Array:
        operands = [value if isinstance(value, np.ndarray) else _operand(value, axes) for value in values]
        mesh = next(x.mesh for x in operands if isinstance(x, mtf.Tensor))
        operands = [
            (x.item() if x.size == 1 else constant(mesh, x, _own_axes(x.shape, axes)).tensor)
            if isinstance(x, np.ndarray)
            else x
            for x in operands
        ]
        return Array(function(*operands), axes)

    if arrays:
        return apply(joint_axes(arrays, sizes))
    return Unnamed(sizes, next(v.dtype for v in values if isinstance(v, Unnamed)), apply)


def _own_axes(sizes: Sequence[int], axes: Sequence[Axis]) -> list[Axis]:
    """Returns the factors of an operand, which may have fewer or smaller axes than the result."""
    target = axes[len(axes) - len(sizes) :]
    return [axis if axis_size(axis) == n else () for n, axis in zip(sizes, target, strict=True)]


def _operand(value: "Array | Unnamed", axes: Sequence[Axis]) -> mtf.Tensor:
    target = _own_axes(value.sizes, axes)
    array = value.with_axes(target) if isinstance(value, Array) else value.named(target)
    return array.without_loose().tensor


def reshaped(value: Value, sizes: Sequence[int]) -> Any:
    """Returns the value with other sizes, in the same order of elements.

    Axes are merged and split by their factors. A dimension that is split keeps its name for the outer part, so that
    the layout still splits it.
    """
    sizes = tuple(sizes)
    if isinstance(value, np.ndarray):
        return value.reshape(sizes)
    if isinstance(value, Unnamed):
        if [n for n in value.sizes if n > 1] != [n for n in sizes if n > 1]:
            return reshaped(value.default(), sizes)
        inner = value

        def build(axes: tuple[Axis, ...]) -> Array:
            large = iter([axis for axis, n in zip(axes, sizes, strict=True) if n > 1])
            array = inner.named(next(large) if n > 1 else () for n in inner.sizes).without_loose()
            large = iter([axis for axis, n in zip(array.axes, inner.sizes, strict=True) if n > 1])
            return Array(array.tensor, [next(large) if n > 1 else () for n in sizes])

        return Unnamed(sizes, value.dtype, build)
    pending = [dim for axis in value.axes for dim in axis]
    parts: dict[mtf.Dimension, list[mtf.Dimension]] = {dim: [dim] for dim in pending}
    names = set(value.names)
    axes: list[Axis] = []
    for size in sizes:
        axis: list[mtf.Dimension] = []
        need = size
        if size == 1 and pending and pending[0].size == 1:
            axis.append(pending.pop(0))
        while need > 1:
            dim = pending.pop(0)
            if need % dim.size == 0:
                axis.append(dim)
                need //= dim.size
            elif dim.size % need == 0:
                outer = mtf.Dimension(dim.name, need)
                inner_dim = mtf.Dimension(free_name(dim.name, names), dim.size // need)
                names.add(inner_dim.name)
                for leaves in parts.values():
                    if dim in leaves:
                        at = leaves.index(dim)
                        leaves[at : at + 1] = [outer, inner_dim]
                axis.append(outer)
                pending.insert(0, inner_dim)
                need = 1
            else:
                return _recut(value, sizes)
        axes.append(tuple(axis))
    dims = [leaf for dim in value.tensor.shape.dims for leaf in parts.get(dim, [dim])]
    return Array(reshape(value.tensor, dims), axes).without_loose()


def _recut(array: Array, sizes: Sequence[int]) -> Array:
    """Reshapes axes whose factors do not divide each other: blocks of axes with the same number of elements."""
    laid = array.laid()
    old, new, axes = list(laid.shape.dims), list(sizes), []
    names = {dim.name for dim in old}
    while new:
        before, after = [old.pop(0)] if old else [], [new.pop(0)]
        while math.prod(dim.size for dim in before) != math.prod(after):
            if math.prod(dim.size for dim in before) < math.prod(after):
                before.append(old.pop(0))
            else:
                after.append(new.pop(0))
        if len(before) == len(after) == 1:
            axes.append((before[0],))
            continue
        for i, size in enumerate(after):
            name = before[0].name if i == 0 else free_name(before[min(i, len(before) - 1)].name, names)
            names.add(name)
            axes.append((mtf.Dimension(name, size),))
    return Array(reshape(laid, [dim for axis in axes for dim in axis]), axes)


def transposed(value: "Array | Unnamed", order: Sequence[int]) -> "Array | Unnamed":
    """Permutes axes, which moves no data."""
    if isinstance(value, Unnamed):
        inverse = np.argsort(order)

        def build(axes: tuple[Axis, ...]) -> Array:
            array = value.named(axes[i] for i in inverse)
            return Array(array.tensor, [array.axes[i] for i in order])

        return Unnamed([value.sizes[i] for i in order], value.dtype, build)
    return Array(value.tensor, [value.axes[i] for i in order])
