"""Arrays whose axes consist of named dimensions.

A TensorFlow graph knows axes by their positions. Here, every axis is a tuple of dimensions, its factors, whose sizes
multiply to the size of the axis. A tensor therefore keeps its dimensions, and their split, through the reshapes of a
graph:

- A transpose permutes the axes, and moves no data.
- A reshape that merges axes concatenates their factors, and one that splits them again returns the factors.
- A factor that the tensor lacks repeats it. `(x:4, repeat:2)` without the second dimension is nearest up-sampling.
- An axis of size 1 has no factor, or factors of size 1.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.resize.operations import Resample, Resampled
from mtf_imaging.engine.ops.resize.taps import Resampling, Taps

Axis = tuple[mtf.Dimension, ...]


def axis_size(axis: Axis) -> int:
    """Returns the product of the sizes of an axis's factors."""
    return math.prod(dim.size for dim in axis)


def free_name(name: str, taken: Iterable[str]) -> str:
    """Returns `name`, or with a number if it is taken."""
    taken = set(taken)
    numbered = (f"{name}_{i}" for i in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)


@dataclasses.dataclass(frozen=True)
class Selection(Resampling):
    """Selects positions along a dimension.

    Attributes:
      size: number of elements of the dimension.
      outputs: number of selected elements.
      positions: the selected positions.
    """

    positions: tuple[int, ...]

    def taps(self) -> Taps:
        positions = np.array([self.positions], np.int32)
        return Taps(positions, np.ones(positions.shape))


def selection(size: int, positions: Iterable[int]) -> Selection:
    """Returns the `Selection` of some positions of `size`."""
    chosen = tuple(int(p) for p in positions)
    return Selection(size, len(chosen), chosen)


class Array:
    """A tensor with axes.

    Args:
      tensor: the tensor. It may lack factors of the axes, and all its other dimensions have size 1.
      axes: the factors of each axis.
    """

    def __init__(self, tensor: mtf.Tensor, axes: Iterable[Axis]) -> None:
        self.tensor, self.axes = tensor, tuple(tuple(axis) for axis in axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(map(axis_size, self.axes))

    @property
    def dtype(self) -> tf.DType:
        """The dtype of the tensor."""
        return self.tensor.dtype

    @property
    def names(self) -> set[str]:
        """The names of all dimensions and factors."""
        return {*self.tensor.shape.dimension_names, *(dim.name for axis in self.axes for dim in axis)}

    def present(self, axis: int) -> list[mtf.Dimension]:
        """Returns the factors of an axis that the tensor has."""
        return [dim for dim in self.axes[axis] if dim in self.tensor.shape.dims]

    def is_whole(self, axis: int) -> bool:
        """Returns whether the tensor has all factors of an axis."""
        return len(self.present(axis)) == len(self.axes[axis])

    def laid(self) -> mtf.Tensor:
        """Returns the tensor with all factors of the axes, in their order."""
        dims = [dim for axis in self.axes for dim in axis]
        tensor = self.without_loose().tensor
        if any(dim.size > 1 and dim not in tensor.shape.dims for dim in dims):
            return mtf.broadcast(tensor, mtf.Shape(dims))
        return reshape(transpose(tensor, [dim for dim in dims if dim in tensor.shape.dims]), dims)

    def without_loose(self) -> "Array":
        """Returns the array without the dimensions that belong to no axis."""
        known = {dim for axis in self.axes for dim in axis}
        kept = [dim for dim in self.tensor.shape.dims if dim in known]
        return Array(reshape(self.tensor, kept), self.axes)

    def with_axes(self, axes: Sequence[Axis]) -> "Array":
        """Returns the array with other factors of the same axes, whose sizes are equal.

        Dimensions that change their names are gathered if they are split.
        """
        axes = tuple(tuple(axis) for axis in axes)
        changed = [i for i, axis in enumerate(axes) if axis != self.axes[i]]
        if not changed:
            return self
        array = self.single(*(i for i in changed if self.present(i) and not self.is_whole(i)))
        renamed: dict[mtf.Dimension, list[mtf.Dimension]] = {}
        moves = False
        for i in changed:
            old, new = array.present(i), list(axes[i])
            if not old:
                # The tensor has no such dimension, so it is repeated whatever the factors are.
                continue
            if [dim.size for dim in old] == [dim.size for dim in new]:
                renamed |= {before: [after] for before, after in zip(old, new, strict=True)}
                continue
            moves |= len(old) > 1
            renamed |= {before: new if before is old[0] else [] for before in old}
        tensor = array.tensor
        if moves:
            order = [dim for i in range(len(axes)) for dim in array.present(i)]
            loose = [dim for dim in tensor.shape.dims if dim not in order]
            tensor = transpose(tensor, [*loose, *order])
        dims = [after for before in tensor.shape.dims for after in renamed.get(before, [before])]
        return Array(reshape(tensor, dims), axes)

    def single(self, *which: int, name: str = "axis") -> "Array":
        """Returns the array with exactly one factor for some axes, which the tensor has.

        Args:
          *which: the positions of the axes.
          name: the name of a dimension of size 1, if an axis has none.
        """
        which = tuple(i for i in which if not (len(self.axes[i]) == 1 and self.is_whole(i)))
        if not which:
            return self
        axes, merged, selected = list(self.axes), list(self.axes), {}
        for i in which:
            axis, present = self.axes[i], self.present(i)
            names = {*self.names, *(dim.name for each in axes for dim in each)} - {dim.name for dim in axis}
            own = (present or axis or [None])[0]
            axes[i] = (mtf.Dimension(free_name(own.name if own else name, names), axis_size(axis)),)
            if present and len(present) < len(axis):
                merged[i] = tuple(present)
                places = np.arange(math.prod(dim.size for dim in present))
                places = places.reshape([dim.size if dim in present else 1 for dim in axis])
                selected[i] = np.broadcast_to(places, [dim.size for dim in axis]).ravel()
        array = Array(self.tensor, merged)
        if selected:
            array = array.with_axes(
                [(mtf.Dimension(axes[i][0].name, axis_size(merged[i])),) if i in selected else axis
                 for i, axis in enumerate(merged)]
            )  # fmt: skip
            array = resampled(array, {i: selection(array.sizes[i], at) for i, at in selected.items()})
        rest = [i for i in which if i not in selected]
        array = array.with_axes([axes[i] if i in rest else array.axes[i] for i in range(len(axes))])
        absent = [axes[i][0] for i in rest if not array.is_whole(i)]
        if not absent:
            return array
        dims = [*array.tensor.shape.dims, *absent]
        is_repeated = any(dim.size > 1 for dim in absent)
        tensor = mtf.broadcast(array.tensor, mtf.Shape(dims)) if is_repeated else reshape(array.tensor, dims)
        return Array(tensor, array.axes)


def reshape(tensor: mtf.Tensor, dims: Sequence[mtf.Dimension]) -> mtf.Tensor:
    """Returns a tensor with other dimensions for the same elements in the same order.

    A split dimension whose name disappears is gathered, which `Program.changes` reports.
    """
    kept, slices = {dim.name for dim in dims}, getattr(tensor.mesh, "slices_per_dimension", {})
    gone = [name for name in tensor.shape.dimension_names if slices.get(name, 1) > 1 and name not in kept]
    if gone:
        tensor = ops.gather_slices(tensor, gone)
    return tensor if tensor.shape.dims == list(dims) else mtf.reshape(tensor, mtf.Shape(dims))


def transpose(tensor: mtf.Tensor, dims: Sequence[mtf.Dimension]) -> mtf.Tensor:
    """Returns a tensor with its dimensions in another order."""
    return tensor if tensor.shape.dims == list(dims) else mtf.transpose(tensor, mtf.Shape(dims))


def resampled(array: Array, lines: Mapping[int, Resampling], kind: str = "resample") -> Array:
    """Multiplies axes by sparse matrices, whatever dimensions are split.

    Args:
      array: the array.
      lines: {axis: its matrix}.
      kind: name of the operation.
    """
    if not lines:
        return array
    array = array.single(*lines)
    dims = array.tensor.shape.dims
    steps = [Resampled(dims.index(array.axes[i][0]), array.axes[i][0].name, line) for i, line in lines.items()]
    axes = list(array.axes)
    for i, line in lines.items():
        axes[i] = (mtf.Dimension(axes[i][0].name, line.outputs),)
    return Array(Resample(kind, array.tensor, steps).outputs[0], axes)
