"""Lowers operations on tensors of different shapes: binary operations, broadcasts, reductions and `mtf.einsum`.

mesh_tensorflow 0.1.21 describes them as functions of slices, which TensorFlow then vectorizes over a stack. Here they
are functions of stacks, which takes a tenth of the time and fewer nodes: a stack of one slice broadcasts like a
dimension of size 1. The tails of uneven slices get neutral values first.
"""

import functools
import string
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine import compat
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import MOST_AXES, as_partial, first_slice, partial_dtype
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

_DIVISIONS = tf.compat.v1.floordiv, tf.compat.v1.mod
_REDUCTIONS = {"SUM": tf.reduce_sum, "MAX": tf.reduce_max, "MIN": tf.reduce_min}


def aligned(stack: tf.Tensor, dims: Sequence[mtf.Dimension], full: Sequence[mtf.Dimension]) -> tf.Tensor:
    """Transposes a stack of slices with dimensions `dims` to the order `full`, with size 1 for absent dimensions."""
    order = [dims.index(dim) for dim in full if dim in dims]
    if order != sorted(order):
        stack = tf.transpose(stack, [0, *(i + 1 for i in order)])
    if len(dims) == len(full):
        return stack
    sizes = iter(stack.shape[1:])
    return tf.reshape(stack, [stack.shape[0], *(next(sizes) if dim in dims else 1 for dim in full)])


def reduced(kind: str, stack: tf.Tensor, dims: Sequence[mtf.Dimension], kept: Sequence[mtf.Dimension]) -> tf.Tensor:
    """Reduces a stack of slices with dimensions `dims` to the dimensions `kept`, in their order.

    A sum of 16-bit numbers is float32. TensorFlow's CPU kernels add float16 numbers in float16, where the sum over a
    volume soon stops growing.
    """
    axes = [i + 1 for i, dim in enumerate(dims) if dim not in kept]
    if axes:
        stack = tf.cast(stack, partial_dtype(stack.dtype)) if kind == "SUM" else stack
        stack = _REDUCTIONS[kind](stack, axes)
    return aligned(stack, [dim for dim in dims if dim in kept], kept)


def lower_binary(op: mtf.BinaryOpWithBroadcasting, lowering: mtf.Lowering) -> None:
    """Lowers a binary operation; a sum of two deferred sums stays deferred."""
    mesh, (y,), fn = lowering.mesh_impl(op), op.outputs, compat.binary_function(op)
    values = [lowering.tensors[x] for x in op.inputs]
    divisor = op.inputs[1]
    if fn in _DIVISIONS and divisor.dtype.is_integer:
        values[1] = tails.valid_integers(mesh, values[1].to_laid_out_tensor(), divisor.shape)
    if all(x.shape == y.shape for x in op.inputs):
        call = mesh.slicewise_delay_allreduce if fn == tf.add else mesh.elementwise
        values = values if fn == tf.add else [value.to_laid_out_tensor() for value in values]
        lowering.set_tensor_lowering(y, call(fn, *values))
        return

    def local(*stacks: tf.Tensor) -> tf.Tensor:
        return fn(*[aligned(stack, x.shape.dims, y.shape.dims) for stack, x in zip(stacks, op.inputs)])

    lowering.set_tensor_lowering(y, mesh.map_stacks(local, *[value.to_laid_out_tensor() for value in values]))


def lower_scalar(op: mtf.Operation, lowering: mtf.Lowering) -> None:
    """Lowers the sum or the product of a tensor and a number."""
    (x,), (y,), number = op.inputs, op.outputs, compat.scalar(op)
    multiplies = isinstance(op, mtf.ScalarMultiplyOperation)
    value = lowering.mesh_impl(op).elementwise(
        lambda stack: stack * number if multiplies else stack + number, lowering.tensors[x].to_laid_out_tensor()
    )
    lowering.set_tensor_lowering(y, value)


def lower_broadcast(op: mtf.BroadcastOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.broadcast`."""
    (x,), (y,) = op.inputs, op.outputs
    value = _broadcast(lowering.mesh_impl(op), lowering.tensors[x].to_laid_out_tensor(), x.shape.dims, y.shape)
    lowering.set_tensor_lowering(y, value)


def _broadcast(mesh: ShardMeshImpl, x: LaidOutTensor, dims: Sequence[mtf.Dimension], shape: mtf.Shape) -> LaidOutTensor:
    sizes = mesh.slice_shape(shape)

    def local(stack: tf.Tensor) -> tf.Tensor:
        if stack.shape == [1]:  # TensorFlow's optimizer removes products with ones, which gradients contain
            return tf.fill([1, *sizes], first_slice(stack))
        stack, target = aligned(stack, dims, shape.dims), [stack.shape[0], *sizes]
        for axis in range(len(target) if len(target) > MOST_AXES else 0):
            stack = tf.broadcast_to(stack, [*target[: axis + 1], *stack.shape[axis + 1 :]])
        return tf.broadcast_to(stack, target)

    return mesh.map_stacks(local, x)


def _split_axes(mesh: ShardMeshImpl, dims: Sequence[mtf.Dimension]) -> list[int]:
    """Returns the mesh axes that split dimensions, in order: sums over axes in different orders are not added first."""
    return sorted(axis for axis in mesh.split_axes(mtf.Shape(dims)) if axis is not None)


def lower_reduction(op: mtf.ReduceOperation, lowering: mtf.Lowering) -> None:
    """Lowers a sum, a maximum or a minimum over dimensions; sums over processors are deferred."""
    mesh, (x,), (y,), kind = lowering.mesh_impl(op), op.inputs, op.outputs, compat.reduction_kind(op)
    fill = {"SUM": 0, "MAX": tails.lowest(x.dtype), "MIN": tails.highest(x.dtype)}[kind]
    missing = [dim for dim in x.shape.dims if dim not in y.shape.dims]
    value = mesh.map_stacks(
        lambda stack: reduced(kind, stack, x.shape.dims, y.shape.dims),
        lowering.masked(x, [dim.name for dim in missing], fill),
    )
    axes = _split_axes(mesh, missing)
    if axes:
        value = mtf.LazyAllreduceSum(mesh, value, axes) if kind == "SUM" else mesh.allreduce(value, axes, kind)
    lowering.set_tensor_lowering(y, value)


def lower_einsum(op: mtf.EinsumOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.EinsumOperation`; a product of tails is 0, because its factors are 0.

    If a tensor has all dimensions, the product is computed elementwise and then summed, which is faster than
    `tf.einsum` on GPUs and takes no more memory.
    """
    mesh, (y,) = lowering.mesh_impl(op), op.outputs
    shapes = [x.shape.dims for x in op.inputs]
    union = list(dict.fromkeys(dim for dims in shapes for dim in dims))
    kept = [dim for dim in y.shape.dims if dim in union]
    full = next((dims for dims in [*shapes, kept] if len(dims) == len(union)), None)
    summed = [dim for dim in full or union if dim not in kept]

    def local(*stacks: tf.Tensor) -> tf.Tensor:
        if full is None and y.dtype.is_floating:
            return _einsum(stacks, shapes, kept)
        dims = full or union
        factors = [aligned(stack, own, dims) for stack, own in zip(stacks, shapes, strict=True)]
        return reduced("SUM", functools.reduce(tf.multiply, factors), dims, kept)

    names = [dim.name for dim in summed]
    axes = _split_axes(mesh, summed)
    # As in `reduced`; and on CPUs without AVX-512, `tf.einsum` adds bfloat16 numbers in bfloat16.
    sums_in_16_bits = y.dtype in (tf.float16, tf.bfloat16) and not tf.config.get_visible_devices("GPU")
    is_wide = bool(axes) or (bool(summed) and (full is not None or sums_in_16_bits))
    value = mesh.map_stacks(as_partial(local, is_wide), *[lowering.masked(x, names) for x in op.inputs])
    if kept != y.shape.dims:
        value = mesh.allreduce(value, axes, "SUM") if axes else value
        value, axes = _broadcast(mesh, value, kept, y.shape), []
    lowering.set_tensor_lowering(y, mtf.LazyAllreduceSum(mesh, value, axes) if axes else value)


def _einsum(
    stacks: Sequence[tf.Tensor], shapes: Sequence[Sequence[mtf.Dimension]], kept: Sequence[mtf.Dimension]
) -> tf.Tensor:
    """Calls `tf.einsum` with the stack as a dimension of the factors that are not stored once."""
    letters: dict[mtf.Dimension | str, str] = {}

    def term(dims: Sequence[mtf.Dimension], is_stack: bool) -> str:
        keys = [*(["stack"] if is_stack else []), *dims]
        return "".join(letters.setdefault(key, string.ascii_letters[len(letters)]) for key in keys)

    stacked = [stack.shape[0] > 1 for stack in stacks]
    terms = [term(dims, is_stack) for dims, is_stack in zip(shapes, stacked, strict=True)]
    factors = [stack if is_stack else tf.squeeze(stack, [0]) for stack, is_stack in zip(stacks, stacked)]
    product = tf.einsum(f"{','.join(terms)}->{term(kept, any(stacked))}", *factors)
    return product if any(stacked) else tf.expand_dims(product, 0)
