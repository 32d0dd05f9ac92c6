"""Lowers `mtf.reshape` under every layout.

mesh_tensorflow 0.1.21 changes the splits one mesh dimension at a time. This mixes up slices if two splits change at
once (`reshape` of x:rows,y:cols to y:cols,x:rows with other sizes), and fails for some other layouts. Here, an
all-to-all changes a single split if the sizes allow it. Otherwise, slices are gathered along the mesh dimensions whose
split changes, reshaped, and split again. If slices are uneven, every split dimension whose size changes is gathered,
and tails are cut off before the reshape.
"""

import math

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl


def _changes(op: mtf.Operation, mesh: ShardMeshImpl) -> dict[int, tuple[int | None, int | None]]:
    """Returns the mesh axes along which a reshape changes the split: {axis: (before, after)}.

    `before` is the product of the sizes of all input dimensions before the one that the axis splits, or
    None if the axis splits no dimension. `after` is the same product for the output.
    """
    (x,), (y,) = op.inputs, op.outputs
    places = zip(mesh.mesh_axis_to_cumprod(x.shape), mesh.mesh_axis_to_cumprod(y.shape), strict=True)
    resized = _resized(x.shape, y.shape, mesh)
    return {axis: place for axis, place in enumerate(places) if place[0] != place[1] or axis in resized}


def _resized(before: mtf.Shape, after: mtf.Shape, mesh: ShardMeshImpl) -> set[int]:
    """Returns the mesh axes that split different sizes before and after, at least one of them unevenly."""
    old, new = (dict(zip(mesh.split_axes(shape), shape.to_integer_list)) for shape in (before, after))
    uneven = {tail.axis for shape in (before, after) for tail in tails.tails_of(mesh, shape)}
    return {axis for axis in uneven & old.keys() & new.keys() if old[axis] != new[axis]}


def _all_to_all(
    op: mtf.Operation, mesh: ShardMeshImpl, changes: dict[int, tuple[int | None, int | None]]
) -> tuple[int, int, int] | None:
    """Returns (mesh axis, dimension to split, dimension to concatenate) if one all-to-all suffices, else None."""
    if len(changes) != 1:
        return None
    shape = op.inputs[0].shape
    ((axis, (before, after)),) = changes.items()
    if before is None or after is None or any(tails.tails_of(mesh, t.shape) for t in op.inputs + op.outputs):
        return None
    target = shape.cumprod_to_tensor_axis(after)
    if target is None or mesh.slice_shape(shape)[target] % mesh.shape[axis].size:
        return None
    return axis, target, mesh.split_axes(shape).index(axis)


def lower(op: mtf.Operation, lowering: mtf.Lowering) -> None:
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
        sizes = dict(enumerate(x.shape.to_integer_list))
        value = tails.gather(mesh, value, {axis: old.index(axis) for axis in changes if axis in old}, sizes)
        split = {axis: new.index(axis) for axis in changes if axis in new}
    for dim in split.values():
        slice_shape[dim] = y.shape.dims[dim].size
    if value.slice_shape != slice_shape:
        value = mesh.map_stacks(lambda stack: tf.reshape(stack, [stack.shape[0], *slice_shape]), value)
    lowering.set_tensor_lowering(y, tails.scatter(mesh, value, split))


def gathers(op: mtf.Operation, mesh: ShardMeshImpl) -> list[tuple[mtf.Tensor, tuple[int, ...]]]:
    """Returns the input and the mesh axes along which `lower` gathers it; an empty list if an all-to-all suffices."""
    (x,), changes = op.inputs, _changes(op, mesh)
    sent = _sent(changes)
    return [(x, sent)] if sent and not _all_to_all(op, mesh, changes) else []


def exchanges(op: mtf.Operation, mesh: ShardMeshImpl) -> list[Round]:
    """Returns the exchanges of `lower`, as `Round`s."""
    (x,), changes = op.inputs, _changes(op, mesh)
    sent = _sent(changes)
    kind = "all-to-all" if _all_to_all(op, mesh, changes) else "gather"
    nbytes = math.prod(mesh.slice_shape(x.shape)) * x.dtype.size
    return [Round([Exchange(kind, sent, nbytes)])] if sent else []


def _sent(changes: dict[int, tuple[int | None, int | None]]) -> tuple[int, ...]:
    return tuple(axis for axis, (before, _) in changes.items() if before is not None)
