"""Lowers `mtf.top_k`: each processor chooses from its own slice, gathers the choices of the others, and chooses again.

mesh_tensorflow 0.1.21 chooses 2, 3 or 4 elements one after the other, and subtracts 1e9 from each choice, which is
wrong for infinite numbers and for numbers below -1e9. Its order of NaN depends on the layout.
"""

import math

import tensorflow as tf

from mtf_imaging.engine.compat import mtf, replace_function, top_k_dimensions
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops import ordering


def _top_k(
    x: mtf.Tensor, reduced_dim: mtf.Dimension, k_dim: mtf.Dimension, name: str | None = None
) -> tuple[mtf.Tensor, mtf.Tensor]:
    """Chooses all elements at once."""
    values, indices = mtf.TopKOperation(x, mtf.convert_to_dimension(reduced_dim), k_dim, name).outputs
    return values, indices


def apply() -> None:
    """Replaces `mtf.top_k`."""
    replace_function(mtf.top_k, _top_k)


def _axis(op: mtf.TopKOperation, mesh: ShardMeshImpl) -> int | None:
    """Returns the mesh axis that splits the reduced dimension."""
    return mesh.split_axes(mtf.Shape([top_k_dimensions(op)[0]]))[0]


def lower(op: mtf.TopKOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.TopKOperation`; of equal elements, the first comes first, and NaN is larger than infinity."""
    mesh, (x,) = lowering.mesh_impl(op), op.inputs
    reduced_dim, k_dim = top_k_dimensions(op)
    place, axis = x.shape.dims.index(reduced_dim), _axis(op, mesh)
    length, last = mesh.slice_shape(x.shape)[place], len(x.shape.dims) - 1

    def choose(keys: tf.Tensor, coordinate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        order = [i for i in range(last + 2) if i != place + 1]
        best, indices = tf.math.top_k(tf.transpose(keys, [*order, place + 1]), min(k_dim.size, length))
        return best, indices + tf.reshape(coordinate, [-1] + [1] * (last + 1)) * length

    def choose_again(keys: tf.Tensor, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        best, chosen = tf.math.top_k(keys, k_dim.size)
        return best, tf.gather(indices, chosen, axis=-1, batch_dims=last + 1)

    keys = mesh.map_stacks(ordering.keys, lowering.tensors[x].to_laid_out_tensor())
    uneven = tails.tails_of(mesh, x.shape, [reduced_dim.name])
    keys = tails.fill(mesh, keys, uneven, keys.dtype.min) if uneven else keys
    own = mesh.laid_out_constant(lambda at: at[axis]) if axis is not None else mesh.laid_out_constant(lambda at: 0)
    own = mesh.map_stacks(lambda c: tf.cast(c, tf.int32), mesh.canonical_like(own, keys))
    best, indices = mesh.map_stacks(choose, keys, own)
    if axis is not None:
        best, indices = mesh.map_stacks(choose_again, *[mesh.gather(each, {axis: last}) for each in (best, indices)])
    values = mesh.map_stacks(lambda keys: ordering.scores(keys, x.dtype), best)
    for y, value in zip(op.outputs, (values, indices), strict=True):
        target = mesh.split_axes(y.shape)[last]
        value = value if target is None else tails.scatter(mesh, value, {target: last})
        lowering.set_tensor_lowering(y, value)


def exchanges(op: mtf.TopKOperation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of an `mtf.TopKOperation`, as `Round`s."""
    reduced_dim, k_dim = top_k_dimensions(op)
    (x,), axis = op.inputs, _axis(op, mesh)
    if axis is None:
        return []
    sizes = mesh.slice_shape(x.shape)
    place = x.shape.dims.index(reduced_dim)
    sizes[place] = min(k_dim.size, sizes[place])
    dtypes = ordering.key_dtype(x.dtype), tf.int32
    return [Round([Exchange("gather", (axis,), math.prod(sizes) * dtype.size) for dtype in dtypes])]
