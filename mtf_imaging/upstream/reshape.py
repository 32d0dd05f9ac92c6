"""`mtf.reshape` under every layout.

mesh_tensorflow 0.1.21 changes the split of one mesh dimension after the other, which mixes up slices where two change
at once (`reshape` of x:rows,y:cols to y:cols,x:rows of other sizes), and gives up on some others. Here an all-to-all
changes a single split where the sizes allow it. Otherwise slices are gathered along the mesh dimensions that change,
reshaped, and split again.
"""

import math

import tensorflow as tf

from mtf_imaging.meshes.exchange import Exchange, Round


def _changes(op, mesh):
    """The mesh axes along which a reshape changes the split: {axis: (before, after)}.

    `before` is the product of the sizes of all dimensions of the input before the one that the axis splits, or None
    where it splits none; `after` is that of the output.
    """
    (x,), (y,) = op.inputs, op.outputs
    places = zip(mesh.mesh_axis_to_cumprod(x.shape), mesh.mesh_axis_to_cumprod(y.shape), strict=True)
    return {axis: place for axis, place in enumerate(places) if place[0] != place[1]}


def _all_to_all(op, mesh, changes):
    """(mesh axis, dimension to split, dimension to concatenate) of the all-to-all that does, or None."""
    if len(changes) != 1:
        return None
    shape = op.inputs[0].shape
    ((axis, (before, after)),) = changes.items()
    if before is None or after is None:
        return None
    target = shape.cumprod_to_tensor_axis(after)
    if target is None or mesh.slice_shape(shape)[target] % mesh.shape[axis].size:
        return None
    return axis, target, mesh.split_axes(shape).index(axis)


def lower(op, lowering):
    """Lowers an `mtf.ReshapeOperation`."""
    mesh = lowering.mesh_impl(op)
    (x,), (y,) = op.inputs, op.outputs
    value = lowering.tensors[x].to_laid_out_tensor()
    slice_shape, changes = mesh.slice_shape(y.shape), _changes(op, mesh)
    old, new = mesh.split_axes(x.shape), mesh.split_axes(y.shape)
    exchange, split = _all_to_all(op, mesh, changes), {}
    if exchange:
        value = mesh.alltoall(value, *exchange)
    else:
        value = mesh.gather(value, {axis: old.index(axis) for axis in changes if axis in old})
        split = {axis: new.index(axis) for axis in changes if axis in new}
    for axis, dim in split.items():
        slice_shape[dim] *= mesh.shape[axis].size
    value = mesh.map_stacks(lambda stack: tf.reshape(stack, [stack.shape[0], *slice_shape]), value)
    lowering.set_tensor_lowering(y, mesh.scatter(value, split))


def exchanges(op, mesh):
    """What `lower` exchanges, as `Round`s."""
    (x,), changes = op.inputs, _changes(op, mesh)
    sent = tuple(axis for axis, (before, _) in changes.items() if before is not None)
    kind = "all-to-all" if _all_to_all(op, mesh, changes) else "gather"
    nbytes = math.prod(mesh.slice_shape(x.shape)) * x.dtype.size
    return [Round([Exchange(kind, sent, nbytes)])] if sent else []
