"""The exchanges of `mtf.top_k`: values and indices of the candidates of each slice along the reduced dimension."""

import math

import tensorflow as tf

from mtf_imaging.compat import mtf, top_k_dimensions
from mtf_imaging.meshes import tails
from mtf_imaging.meshes.exchange import Exchange, Round
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.upstream import whole


def exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of an `mtf.TopKOperation`, as `Round`s."""
    reduced_dim, k_dim = top_k_dimensions(op)
    if reduced_dim.name == k_dim.name or tails.tails_of(mesh, mtf.Shape([reduced_dim])):
        return whole.exchanges(op, mesh)
    (axis,) = mesh.split_axes(mtf.Shape([reduced_dim]))
    if axis is None:
        return []
    sizes = mesh.without([k_dim.name]).slice_shape(op.outputs[0].shape)
    sizes[-1] = min(sizes[-1], reduced_dim.size // mesh.shape[axis].size)
    dtypes = op.inputs[0].dtype, tf.int32
    return [Round([Exchange("gather", (axis,), math.prod(sizes) * dtype.size) for dtype in dtypes])]
