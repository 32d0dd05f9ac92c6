"""The exchanges of `mtf.top_k`: values and indices of the candidates of each slice along the reduced dimension."""

import math

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.exchange import Exchange, Round
from mtf_imaging.upstream import whole


def exchanges(op, mesh):
    """Returns the exchanges of an `mtf.TopKOperation`, as `Round`s."""
    if op._reduced_dim.name == op._k_dim.name:
        return whole.exchanges(op, mesh)
    (axis,) = mesh.split_axes(mtf.Shape([op._reduced_dim]))
    if axis is None:
        return []
    sizes = mesh.without([op._k_dim.name]).slice_shape(op.outputs[0].shape)
    sizes[-1] = min(sizes[-1], op._reduced_dim.size // mesh.shape[axis].size)
    dtypes = op.inputs[0].dtype, tf.int32
    return [Round([Exchange("gather", (axis,), math.prod(sizes) * dtype.size) for dtype in dtypes])]
