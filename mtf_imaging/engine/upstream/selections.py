"""`mtf.where`, `gather`, `cumsum` and other functions that select elements, without products.

mesh_tensorflow 0.1.21 multiplies by masks of 0 and 1. A product turns a NaN or an infinite number that is not selected
into NaN.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf, replace_function, top_k_dimensions
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Round, sum_over
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.portable import index_dtype
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.engine.upstream.broadcasting import aligned
from mtf_imaging.engine.upstream.operands import checked, describe
from mtf_imaging.errors import ConfigError, ShapeError


class Where(mtf.Operation):
    """`y = if_true where condition, else if_false`, with broadcasting."""

    def __init__(self, condition: mtf.Tensor, if_true: mtf.Tensor, if_false: mtf.Tensor) -> None:
        super().__init__([condition, if_true, if_false], name="where")
        shape = _joint(_joint(if_true.shape, condition.shape), _joint(if_false.shape, condition.shape))
        self._outputs = [mtf.Tensor(self, shape, if_true.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        (condition, if_true, if_false), (dy,) = self.inputs, grad_ys
        return [
            None,
            mtf.reduce_sum(mtf.where(condition, dy, 0), output_shape=if_true.shape),
            mtf.reduce_sum(mtf.where(condition, 0, dy), output_shape=if_false.shape),
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        def local(*stacks: tf.Tensor) -> tf.Tensor:
            return tf.where(*[aligned(stack, x.shape.dims, y.shape.dims) for stack, x in zip(stacks, self.inputs)])

        (y,) = self.outputs
        values = [lowering.tensors[x].to_laid_out_tensor() for x in self.inputs]
        lowering.set_tensor_lowering(y, lowering.mesh_impl(self).map_stacks(local, *values))


def _joint(first: mtf.Shape, second: mtf.Shape) -> mtf.Shape:
    """Returns the dimensions of both shapes, in the order of mesh_tensorflow's binary functions."""
    if mtf.is_subsequence(first.dims, second.dims):
        return second
    return mtf.Shape(dict.fromkeys([*first.dims, *second.dims]))


class Gather(mtf.Operation):
    """`y[i, other] = x[indices[i], other]`, and 0 for an index that is not an element of the dimension.

    Each processor gathers from its own slice. The dimensions i may be dimensions of `x`; each of their elements then
    has its own index.

    Args:
      x: Tensor[dim, other...], in any order.
      indices: Tensor[i...] of integers.
      dim: the dimension of `x` that the indices count.
    """

    def __init__(self, x: mtf.Tensor, indices: mtf.Tensor, dim: mtf.Dimension) -> None:
        super().__init__([x, indices], name="gather")
        self._dim = dim
        dims = dict.fromkeys([*indices.shape.dims, *(x.shape - dim).dims])
        self._outputs = [mtf.Tensor(self, mtf.Shape(dims), x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        x, indices = self.inputs
        return [Scatter(grad_ys[0], indices, self._dim, x.shape).outputs[0], None]

    def lower(self, lowering: mtf.Lowering) -> None:
        (x, indices), (y,) = self.inputs, self.outputs

        def local(stack: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
            values = _gathered((stack, x.shape.dims), (at, indices.shape.dims), self._dim, y.shape.dims)
            is_here = aligned(at >= 0, indices.shape.dims, y.shape.dims)
            return tf.where(is_here, values, tf.zeros([], x.dtype))

        mesh, at = lowering.mesh_impl(self), _local_indices(lowering, indices, self._dim)
        value = mesh.map_stacks(local, lowering.tensors[x].to_laid_out_tensor(), at)
        lowering.set_tensor_lowering(y, _summed(mesh, value, [self._dim]))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return _sums(mesh, [self._dim], self.outputs[0])


class Scatter(mtf.Operation):
    """The adjoint of `Gather`: `dx[d, other]` is the sum of `dy[i, other]` over all i whose index is d.

    Args:
      dy: Tensor[i..., other...], in any order.
      indices: Tensor[i...] of integers.
      dim: the dimension that the indices count.
      shape: the shape of the result.
    """

    def __init__(self, dy: mtf.Tensor, indices: mtf.Tensor, dim: mtf.Dimension, shape: mtf.Shape) -> None:
        super().__init__([dy, indices], name="scatter")
        self._dim, self._gone = dim, [each for each in dy.shape.dims if each not in shape.dims]
        self._outputs = [mtf.Tensor(self, shape, dy.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [Gather(grad_ys[0], self.inputs[1], self._dim).outputs[0], None]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, (dy, indices), (dx,) = lowering.mesh_impl(self), self.inputs, self.outputs
        size = mesh.slice_shape(mtf.Shape([self._dim]))[0]

        def select(stack: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
            every = aligned(tf.range(size, dtype=at.dtype)[tf.newaxis], [self._dim], dx.shape.dims)
            stack, at = aligned(stack, dy.shape.dims, dx.shape.dims), aligned(at, indices.shape.dims, dx.shape.dims)
            return tf.where(at == every, stack, tf.zeros([], dy.dtype))

        def add(stack: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
            return _scattered((stack, dy.shape.dims), (at, indices.shape.dims), self._dim, dx.shape.dims, size)

        at = _local_indices(lowering, indices, self._dim)
        value = lowering.tensors[dy].to_laid_out_tensor()
        if self._gone:
            at = tails.fill(mesh, at, tails.tails_of(mesh, indices.shape, [dim.name for dim in self._gone]), -1)
        value = mesh.map_stacks(add if self._gone else select, value, at)
        lowering.set_tensor_lowering(dx, _summed(mesh, value, self._gone))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return _sums(mesh, self._gone, self.outputs[0])


class Cumsum(mtf.Operation):
    """`tf.cumsum` along a dimension, which `whole` gathers if it is split. 16-bit numbers are summed in float32."""

    def __init__(self, x: mtf.Tensor, dim: mtf.Dimension, exclusive: bool, reverse: bool = False) -> None:
        super().__init__([x], name="cumsum")
        self._dim, self._exclusive, self._reverse = dim, exclusive, reverse
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    @property
    def unsplittable_dims(self) -> list[str]:
        return [self._dim.name]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [Cumsum(grad_ys[0], self._dim, self._exclusive, not self._reverse).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        (x,), (y,) = self.inputs, self.outputs
        axis = x.shape.dims.index(self._dim) + 1

        def local(stack: tf.Tensor) -> tf.Tensor:
            wide = tf.cast(stack, master_dtype(x.dtype)) if x.dtype.is_floating else stack
            return tf.cast(tf.cumsum(wide, axis, self._exclusive, self._reverse), x.dtype)

        value = lowering.tensors[x].to_laid_out_tensor()
        lowering.set_tensor_lowering(y, lowering.mesh_impl(self).map_stacks(local, value))


def _local_indices(lowering: mtf.Lowering, indices: mtf.Tensor, dim: mtf.Dimension) -> LaidOutTensor:
    """Returns the position of each index in the processor's slice of a dimension, and -1 if it is not there."""
    mesh, value = lowering.mesh_impl(indices), lowering.tensors[indices].to_laid_out_tensor()
    (axis,), (size,), dtype = mesh.split_axes(mtf.Shape([dim])), mesh.slice_shape(mtf.Shape([dim])), index_dtype()

    def local(stack: tf.Tensor, *first: tf.Tensor) -> tf.Tensor:
        stack = tf.cast(stack, dtype)
        at = stack
        for each in first:
            at -= tf.reshape(tf.cast(each, dtype), [-1] + [1] * len(indices.shape.dims))
        return tf.where((at >= 0) & (at < size) & (stack < dim.size), at, tf.constant(-1, dtype))

    return mesh.map_stacks(
        local, value, *([] if axis is None else [mesh.laid_out_constant(lambda at: at[axis] * size)])
    )


def _ordered(x: tf.Tensor, dims: Sequence[Hashable], order: Sequence[Hashable]) -> tf.Tensor:
    """Transposes a tensor with dimensions `dims` to another order."""
    return x if dims == order else tf.transpose(x, [dims.index(dim) for dim in order])


_Stack = tuple[tf.Tensor, list[mtf.Dimension]]  # a stack of slices, and the dimensions of a slice


def _gathered(x: _Stack, indices: _Stack, dim: mtf.Dimension, order: list[mtf.Dimension]) -> tf.Tensor:
    """Returns a stack of `x[indices]`, with dimensions in some order; any element for an index below 0."""
    (values, dims), (at, own) = x, indices
    if values.shape[0] == 1:
        values = tf.squeeze(values, [0])
    else:
        dims, at = ["stack", *dims], tf.broadcast_to(at, [values.shape[0], *at.shape[1:]])
    own = ["stack", *own]
    common, new = [each for each in own if each in dims], [each for each in own if each not in dims]
    rest = [each for each in dims if each not in common]
    values, at = _ordered(values, dims, common + rest), _ordered(tf.maximum(at, 0), own, common + new)
    place = rest.index(dim)
    values = tf.gather(values, at, axis=len(common) + place, batch_dims=len(common))
    return _ordered(values, [*common, *rest[:place], *new, *rest[place + 1 :]], ["stack", *order])


def _scattered(dy: _Stack, indices: _Stack, dim: mtf.Dimension, order: list[mtf.Dimension], size: int) -> tf.Tensor:
    """Returns a stack of sums of `dy` for each index below `size`, with dimensions in some order."""
    (values, dims), (at, own) = dy, indices
    n = max(values.shape[0], at.shape[0])
    values, at = [tf.broadcast_to(stack, [n, *stack.shape[1:]]) for stack in (values, at)]
    common, gone = ["stack", *(each for each in own if each in order)], [each for each in own if each not in order]
    rest = [each for each in dims if each not in own]
    values = _ordered(tf.cast(values, master_dtype(values.dtype)), ["stack", *dims], common + gone + rest)
    at = _ordered(at, ["stack", *own], common + gone)
    lead, fields = at.shape[: len(common)], values.shape[len(common + gone) :]
    at = tf.reshape(at, [math.prod(lead), -1])
    rows = tf.where(at < 0, at, at + size * tf.range(at.shape[0], dtype=at.dtype)[:, tf.newaxis])
    values = tf.reshape(values, [math.prod(at.shape), math.prod(fields)])
    total = tf.math.unsorted_segment_sum(values, tf.reshape(rows, [-1]), at.shape[0] * size)
    total = tf.cast(tf.reshape(total, [*lead, size, *fields]), dy[0].dtype)
    return _ordered(total, [*common, dim, *rest], ["stack", *order])


def _axes(mesh: ShardMeshImpl, dims: Sequence[mtf.Dimension]) -> list[int]:
    return [axis for axis in mesh.split_axes(mtf.Shape(dims)) if axis is not None]


def _summed(
    mesh: ShardMeshImpl, x: LaidOutTensor, dims: Sequence[mtf.Dimension]
) -> LaidOutTensor | mtf.LazyAllreduceSum:
    """Returns the deferred sum over the processors that split some dimensions."""
    axes = _axes(mesh, dims)
    return mtf.LazyAllreduceSum(mesh, x, axes) if axes else x


def _sums(mesh: ShardMeshImpl, dims: Sequence[mtf.Dimension], y: mtf.Tensor) -> list[Round]:
    """Returns the exchanges of `_summed`."""
    return sum_over(_axes(mesh, dims), mesh.slice_shape(y.shape), y.dtype.size, lazy=True)


@checked
def where(if_true: object, if_false: object, condition: mtf.Tensor, output_shape: object) -> mtf.Tensor:
    """Returns `if_true` where the condition is true, else `if_false`; one of them may be a number."""
    y = Where(condition, *mtf.binary_arguments_to_tensors(if_true, if_false)).outputs[0]
    return _in_shape(y, output_shape)


def _where(condition: mtf.Tensor, if_true: object, if_false: object, output_shape: object = None) -> mtf.Tensor:
    if not condition.dtype.is_bool:
        raise ShapeError(
            f"mtf.where: {describe(condition)} has dtype {condition.dtype.name}, not bool. Fix: compare it with a "
            "number, such as x > 0."
        )
    return where(if_true, if_false, condition, output_shape)


def _in_shape(y: mtf.Tensor, output_shape: object) -> mtf.Tensor:
    return y if output_shape is None else mtf.broadcast(y, output_shape)


def _gather(weights: mtf.Tensor, indices: Any, dim: mtf.Dimension, output_shape: Any = None) -> mtf.Tensor:
    dim = mtf.convert_to_dimension(dim)
    if not isinstance(indices, mtf.Tensor):
        indices = mtf.constant(weights.mesh, indices, dtype=tf.int32)
    if dim not in weights.shape.dims or dim in indices.shape.dims or not indices.dtype.is_integer:
        raise ShapeError(
            f"mtf.gather: the indices must be integers, and '{dim.name}' (size {dim.size}) must be a dimension of the "
            f"first tensor only, but that is {describe(weights)}, and the indices are {describe(indices)} of dtype "
            f"{indices.dtype.name}. Fix: convert them with mtf.cast, or rename a dimension with mtf.rename_dimension."
        )
    if weights.dtype.is_bool:
        return mtf.cast(mtf.gather(mtf.to_float(weights), indices, dim, output_shape), tf.bool)
    return _in_shape(Gather(weights, indices, dim).outputs[0], output_shape)


def _cumsum(x: mtf.Tensor, dim: mtf.Dimension, exclusive: bool = False) -> mtf.Tensor:
    return Cumsum(x, mtf.convert_to_dimension(dim), exclusive).outputs[0]


def _reduce_first(tensor: mtf.Tensor, reduced_dim: mtf.Dimension) -> mtf.Tensor:
    return mtf.gather(tensor, 0, reduced_dim)


def _dynamic_shift(x: mtf.Tensor, offset: mtf.Tensor, dim: mtf.Dimension, wrap: bool) -> mtf.Tensor:
    if dim not in x.shape.dims or not set(offset.shape.dims) <= {*x.shape.dims} - {dim}:
        raise ShapeError(
            f"mtf.dynamic_shift: '{dim.name}' (size {dim.size}) must be a dimension of {describe(x)}, and the offset "
            f"must have other dimensions of it, but has {offset.shape}. Fix: rename a dimension with "
            "mtf.rename_dimension."
        )
    source = mtf.Dimension("dynamic_shift_tmp", dim.size)
    indices = mtf.range(x.mesh, dim, offset.dtype) - offset
    indices = mtf.mod(indices, dim.size) if wrap else indices
    return mtf.gather(mtf.replace_dimensions(x, dim, source), indices, source, x.shape)


def _top_k_gradient(op: mtf.TopKOperation, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
    ((x,), (dvalue, _)), (dim, _) = (op.inputs, grad_ys), top_k_dimensions(op)
    return [None if dvalue is None else Scatter(dvalue, op.outputs[1], dim, x.shape).outputs[0]]


def _dropout(
    x: mtf.Tensor,
    is_training: bool,
    keep_prob: float | None = None,
    rate: float | None = None,
    noise_shape: object = None,
    name: str | None = None,
) -> mtf.Tensor:
    del name
    if (keep_prob is None) == (rate is None):
        raise ConfigError("mtf.dropout: keep_prob and rate exclude each other. Fix: pass one of them.")
    keep_prob = keep_prob if rate is None else 1.0 - rate
    if keep_prob == 1.0 or not is_training:
        return x
    shape = x.shape if noise_shape is None else mtf.convert_to_shape(noise_shape)
    noise = mtf.random_uniform(x.mesh, shape, dtype=x.dtype if x.dtype.is_floating else tf.float32)
    return mtf.where(mtf.less(noise, keep_prob), x / keep_prob if x.dtype.is_floating else x, 0)


_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    mtf.where: _where,
    mtf.gather: _gather,
    mtf.cumsum: _cumsum,
    mtf.reduce_first: _reduce_first,
    mtf.dynamic_shift: _dynamic_shift,
    mtf.dropout: _dropout,
}


def apply() -> None:
    """Replaces functions and gradients of mesh_tensorflow."""
    for old, new in _FUNCTIONS.items():
        replace_function(old, new)
    mtf.TopKOperation.gradient = _top_k_gradient
