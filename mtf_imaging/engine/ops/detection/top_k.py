"""The elements with the highest scores in a tensor that may be split along any dimensions.

Each processor chooses among its own slice, gathers the choices of the others, and chooses again. No processor sends
more than the elements that it has chosen.
"""

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.portable import index_dtype
from mtf_imaging.engine.ops import ordering
from mtf_imaging.engine.ops.faults import LayoutFault, cannot_split
from mtf_imaging.errors import ShapeError


def _strides(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]


class TopK(mtf.Operation):
    """Outputs the k largest scores of each example, and the elements of other tensors at their positions.

    Nothing is differentiated: a choice has no gradient, and callers treat the chosen elements as constants.
    """

    kind = "top_k"

    def __init__(self, scores: mtf.Tensor, rows: Sequence[mtf.Tensor], k: int, name: str | None = None) -> None:
        super().__init__([scores, *rows], name=name or self.kind)
        batch, *dims = scores.shape.dims
        top = mtf.Dimension("top", min(k, math.prod(dim.size for dim in dims)))
        shapes = [mtf.Shape([batch, top, *self._fields(x)]) for x in self.inputs]
        self._outputs = [
            mtf.Tensor(self, shape, x.dtype, index=i) for i, (x, shape) in enumerate(zip(self.inputs, shapes))
        ]

    def _fields(self, x: mtf.Tensor) -> list[mtf.Dimension]:
        return [dim for dim in x.shape.dims if dim not in self.inputs[0].shape.dims]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [None] * len(self.inputs)

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        title, why = f"{self.kind} '{self.name}'", "the operation moves all fields of an element together"
        dims = dict.fromkeys(dim for x in self.inputs for dim in self._fields(x))
        split = [(dim, rules.get(dim.name, "")) for dim in dims]
        return [
            cannot_split(title, dim, rule, mesh_sizes[rule], why) for dim, rule in split if mesh_sizes.get(rule, 1) > 1
        ]

    def _axes(self, mesh: ShardMeshImpl) -> tuple[int, ...]:
        """Returns the mesh axes along which the choices are gathered."""
        return tuple(sorted(axis for axis in mesh.split_axes(self.inputs[0].shape)[1:] if axis is not None))

    def _num_candidates(self, mesh: ShardMeshImpl) -> int:
        """Returns the number of elements that each processor chooses from its own slice."""
        _, *sizes = mesh.slice_shape(self.inputs[0].shape)
        return min(self.outputs[0].shape.dims[1].size, math.prod(sizes))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        axes, scores = self._axes(mesh), self.inputs[0]
        if not axes:
            return []
        number = mesh.slice_shape(scores.shape)[0] * self._num_candidates(mesh)
        sizes = [ordering.key_dtype(scores.dtype).size, tf.int64.size]
        sizes += [x.dtype.size * math.prod(dim.size for dim in self._fields(x)) for x in self.inputs[1:]]
        return [Round([Exchange("gather", axes, number * size)]) for size in sizes]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, scores = lowering.mesh_impl(self), self.inputs[0]
        inputs = [lowering.tensors[x].to_laid_out_tensor() for x in self.inputs]
        keys = mesh.map_stacks(ordering.keys, inputs[0])
        uneven = tails.tails_of(mesh, scores.shape, scores.shape.dimension_names[1:])
        keys = tails.fill(mesh, keys, uneven, keys.dtype.min) if uneven else keys
        firsts = mesh.canonical_like(self._firsts(mesh), keys)
        choices = mesh.map_stacks(functools.partial(self._choose, mesh), keys, firsts, *inputs[1:])
        axes = self._axes(mesh)
        if axes:
            choices = mesh.map_stacks(self._choose_again, *[mesh.gather(x, dict.fromkeys(axes, 1)) for x in choices])
        keys, _, *rows = choices
        dtype = scores.dtype
        values = mesh.map_stacks(lambda keys: ordering.scores(keys, dtype), keys)
        for y, value in zip(self.outputs, [values, *rows], strict=True):
            axis = mesh.split_axes(y.shape)[1]
            lowering.set_tensor_lowering(y, value if axis is None else tails.scatter(mesh, value, {axis: 1}))

    def _firsts(self, mesh: ShardMeshImpl) -> LaidOutTensor:
        """Returns, for each slice, the position of its first element in the whole tensor."""
        _, *dims = self.inputs[0].shape.dims
        (_, *axes), (_, *sizes) = mesh.split_axes(self.inputs[0].shape), mesh.slice_shape(self.inputs[0].shape)
        parts = list(zip(axes, sizes, _strides([dim.size for dim in dims]), strict=True))
        return mesh.laid_out_constant(
            lambda at: np.int64(sum(at[axis] * size * stride for axis, size, stride in parts if axis is not None))
        )

    def _choose(
        self, mesh: ShardMeshImpl, keys: tf.Tensor, firsts: tf.Tensor, *rows: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Returns the largest keys of each slice in a shard, their positions in the whole tensor, and their rows."""
        n, batch, *sizes = keys.shape
        best, chosen = tf.math.top_k(tf.reshape(keys, [n, batch, -1]), self._num_candidates(mesh))
        chosen = tf.cast(chosen, index_dtype())
        _, *dims = self.inputs[0].shape.dims
        at = {dim: chosen // stride % size for dim, stride, size in zip(dims, _strides(sizes), sizes, strict=True)}
        whole = _strides([dim.size for dim in dims])
        position = tf.reshape(tf.cast(firsts, chosen.dtype), [-1, 1, 1]) + sum(
            at[dim] * stride for dim, stride in zip(dims, whole)
        )
        at[self.inputs[0].shape.dims[0]] = tf.range(batch, dtype=chosen.dtype)[:, tf.newaxis]
        results = []
        for x, stack in zip(self.inputs[1:], rows, strict=True):
            index = tf.zeros_like(chosen)
            if stack.shape[0] > 1:
                index += tf.range(n, dtype=chosen.dtype)[:, tf.newaxis, tf.newaxis]
            for dim, size in zip(x.shape.dims, stack.shape[1:]):
                index = index * size + at[dim] if dim in at else index
            fields = [dim.size for dim in self._fields(x)]
            results.append(tf.gather(tf.reshape(stack, [-1, *fields]), index))
        return best, position, *results

    def _choose_again(self, keys: tf.Tensor, positions: tf.Tensor, *rows: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Chooses from the choices of all processors; of equal scores, the first in the whole tensor comes first."""

        def take(x: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
            return tf.gather(x, order, axis=2, batch_dims=2)

        order = tf.argsort(positions, axis=-1)
        best, chosen = tf.math.top_k(take(keys, order), self.outputs[0].shape.dims[1].size)
        order = take(order, chosen)
        return best, *(take(x, order) for x in (positions, *rows))


def top_k(
    scores: mtf.Tensor, rows: Sequence[mtf.Tensor], k: int, name: str | None = None
) -> tuple[mtf.Tensor, list[mtf.Tensor]]:
    """Returns the k largest scores of each example, like `tf.math.top_k` of the flattened tensor, and their rows.

    Scores are in descending order. Of equal scores, the one with the lowest index in the flattened tensor comes first.

    Every dimension of `scores` may be split; slices may have any size. Each processor chooses from its own slice and
    sends its choices to the other processors along the mesh dimensions that split a dimension other than `batch`. The
    gradient of all inputs is 0.

    Args:
      scores: Tensor[batch, d1, ..., dn] of a floating-point dtype.
      rows: tensors with an element for each score, Tensor[batch, d1, ..., dn, fields...]. A tensor may lack some of the
        dimensions of `scores`, such as `batch` or the classes, if its elements do not depend on them. The fields must
        not be split.
      k: the number of scores. If an example has fewer scores, all of them are returned.
      name: name of the operation.

    Returns:
      A pair (Tensor[batch, top], a list with a Tensor[batch, top, fields...] for each tensor of `rows`).

    Raises:
      ShapeError: `k` is not positive, the dtype of the scores is an integer, or the dimensions of a tensor do not fit.
    """
    title, dims = f"top_k '{name or 'top_k'}'", scores.shape.dims
    if k < 1:
        raise ShapeError(f"{title}: k must be at least 1, not {k}")
    if len(dims) < 2 or not scores.dtype.is_floating:
        raise ShapeError(
            f"{title}: scores must have a batch dimension, at least one other dimension, and a floating-point dtype, "
            f"but they have {scores.shape} and dtype {scores.dtype.name}"
        )
    names = set(scores.shape.dimension_names)
    for x in rows:
        shared = [dim in dims for dim in x.shape.dims]
        other = [dim for dim in x.shape.dims if dim not in dims and dim.name in names]
        if other or shared != sorted(shared, reverse=True):
            raise ShapeError(
                f"{title}: the dimensions of rows must be dimensions of the scores, followed by fields, but the scores "
                f"have {scores.shape} and the rows {x.shape}"
            )
    values, *chosen = TopK(scores, rows, k, name).outputs
    return values, chosen
