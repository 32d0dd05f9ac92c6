"""The base class of halo exchange steps, and the steps that compute on each slice alone: pad, crop and cut."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes import portable
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import MOST_AXES, constant, reshape
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

_PADDED_DIMENSIONS = 6


@dataclasses.dataclass(frozen=True)
class Step(abc.ABC):
    """A step on the way from slices to widened slices.

    Attributes:
      exchanges: the exchanges of `widen`. `narrow` makes the same exchanges in the opposite direction.
    """

    exchanges: tuple[Exchange, ...] = dataclasses.field(default=(), kw_only=True)

    @abc.abstractmethod
    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        """Applies the step; voxels beyond the border of the whole tensor are `fill`."""

    @abc.abstractmethod
    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Converts gradients of the result of `widen` to gradients of its argument; the adjoint for any fill."""


@dataclasses.dataclass(frozen=True)
class Pad(Step):
    """Pads slices along all margins at once."""

    margins: tuple[Margin, ...]

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        return mesh.map_stacks(lambda stack: pad(stack, self.margins, fill), x)

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        return mesh.map_stacks(lambda stack: cut(stack, within(self.margins)), dx)


@dataclasses.dataclass(frozen=True)
class Crop(Step):
    """Cuts the margins off all slices."""

    margins: tuple[Margin, ...]

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        return mesh.map_stacks(lambda stack: cut(stack, within(self.margins)), x)

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        return mesh.map_stacks(lambda stack: pad(stack, self.margins, 0), dx)


@dataclasses.dataclass(frozen=True)
class Cut(Step):
    """Cuts the voxels that the windows of each processor need, at positions that differ between processors."""

    margin: Margin

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        length = self.margin.plan.length
        return gather(mesh, x, self.margin, lambda at: self.margin.plan.starts[at] + np.arange(length))

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Puts gradients back at their positions in the widened slice, with zeros elsewhere."""
        return gather_or_zero(
            mesh, dx, self.margin, lambda at: np.arange(self.margin.plan.width) - self.margin.plan.starts[at]
        )


def gather(mesh: ShardMeshImpl, x: LaidOutTensor, m: Margin, index: Callable[[int], np.ndarray]) -> LaidOutTensor:
    """Gathers the voxels at positions `index(i)` of slice i along the dimension of a margin."""

    def local(stack: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        return tf.gather(stack, index, axis=m.dim + 1, batch_dims=1)

    return mesh.map_stacks(local, x, mesh.laid_out_constant(lambda at: index(at[m.axis])))


def gather_or_zero(
    mesh: ShardMeshImpl, x: LaidOutTensor, m: Margin, index: Callable[[int], np.ndarray]
) -> LaidOutTensor:
    """Gathers like `gather`, with zeros at positions outside the slices."""
    size = x.slice_shape[m.dim]

    def append_zero(stack: tf.Tensor) -> tf.Tensor:
        folded = tf.reshape(stack, [-1, *stack.shape[m.dim + 1 :]])
        padded = tf.pad(folded, [[0, 0], [0, 1]] + [[0, 0]] * (len(folded.shape) - 2))
        return tf.reshape(padded, [*stack.shape[: m.dim + 1], *padded.shape[1:]])

    def place(at: int) -> np.ndarray:
        voxels = index(at)
        return np.where((voxels >= 0) & (voxels < size), voxels, size)

    return gather(mesh, mesh.map_stacks(append_zero, x), m, place)


def pad(stack: tf.Tensor, margins: Sequence[Margin], fill: float) -> tf.Tensor:
    """Pads a stack along all margins at once.

    TensorFlow's CPU kernel supports at most 6 dimensions. For more, the leading dimensions are joined.
    """
    margins = [m for m in margins if m.before or m.after]
    if not margins:
        return stack
    first = min(m.dim for m in margins) + 1 if len(stack.shape) > _PADDED_DIMENSIONS else 1
    folded = reshape(stack, [math.prod(stack.shape[:first]), *stack.shape[first:]])
    pads = [[0, 0] for _ in folded.shape]
    for m in margins:
        pads[m.dim + 2 - first] = [m.before, m.after]
    padded = portable.pad(folded, pads, constant(fill, stack.dtype))
    return reshape(padded, [*stack.shape[:first], *padded.shape[1:]])


def cut(stack: tf.Tensor, ranges: Mapping[int, tuple[int, int]]) -> tf.Tensor:
    """Cuts {dimension of a slice: (first voxel, number of voxels)} out of each slice."""
    if len(stack.shape) > MOST_AXES:
        for dim, (begin, size) in ranges.items():
            before, after = stack.shape[: dim + 1], stack.shape[dim + 2 :]
            joined = reshape(stack, [math.prod(before), stack.shape[dim + 1], math.prod(after)])
            stack = reshape(joined[:, begin : begin + size], [*before, size, *after])
        return stack
    begins, sizes = [0] * len(stack.shape), [-1] * len(stack.shape)
    for dim, (begin, size) in ranges.items():
        begins[dim + 1], sizes[dim + 1] = begin, size
    return tf.slice(stack, begins, sizes)


def within(margins: Iterable[Margin]) -> dict[int, tuple[int, int]]:
    """Returns the ranges of the slices in slices that are widened by margins, for `cut`."""
    return {m.dim: (m.before, m.size) for m in margins}
