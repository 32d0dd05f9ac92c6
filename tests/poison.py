"""Poisons the tails of uneven slices, so that an operation that reads a tail gives a wrong result.

The elements of a tail are undefined. By chance they can be harmless, such as zeros in a sum. While the poison is
installed, the tails of the result of every operation are NaN, or `INTEGER` if the dtype is an integer.

Kernels of a maximum or a minimum may ignore NaN. Tests of such operations therefore also run with infinite tails.
"""

import contextlib

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.upstream import reads

INTEGER = 10**6  # not a class, and not an index
_floats = [np.nan]
_removed = []


@contextlib.contextmanager
def filled_with(value):
    """Lowers programs with another value in the tails of floating-point tensors."""
    _floats.append(value)
    try:
        yield
    finally:
        _floats.pop()


@contextlib.contextmanager
def removed():
    """Lowers programs without the poison, as users do: an operation reads the tails that the previous ones filled."""
    _removed.append(True)
    try:
        yield
    finally:
        _removed.pop()


def install(lowering_class, mesh_class):
    """Poisons the results of all operations that are lowered from now on.

    Args:
      lowering_class: the class `Lowering`. An operation that fills the tails of its inputs, stores the result for the
        next operation, which must not rely on it: the tails are poisoned again.
      mesh_class: the class `ShardMeshImpl`. A `Lowering` calls its method `canonical` for every tensor.
    """
    canonical, lower = mesh_class.canonical, lowering_class.lower

    def lower_and_poison(lowering, op):
        inputs = {x: lowering.tensors[x] for x in reads(op) if x in lowering.tensors}
        lower(lowering, op)
        if not _removed:
            lowering.tensors.update(inputs)

    mesh_class.canonical = lambda mesh, x, shape: poison(mesh, canonical(mesh, x, shape), shape)
    lowering_class.lower = lower_and_poison
    mesh_class.canonical.original = canonical


def poison(mesh, x, shape):
    """Poisons the tails of a laid-out tensor; tensors without tails and booleans are returned unchanged.

    Args:
      mesh: the `ShardMeshImpl`.
      x: the `LaidOutTensor`, with a slice for each processor.
      shape: the shape of the whole tensor.
    """
    tails = [
        (place, axis, dim.size, -(-dim.size // mesh.shape[axis].size))
        for place, (dim, axis) in enumerate(zip(shape.dims, mesh.split_axes(shape), strict=True))
        if axis is not None and dim.size % mesh.shape[axis].size
    ]
    if x.dtype == tf.bool or not tails or _removed:
        return x
    assert x.slice_shape == mesh.slice_shape(shape), f"{shape}: slices {x.slice_shape}, not {mesh.slice_shape(shape)}"
    value = _floats[-1] if x.dtype.is_floating else min(INTEGER, x.dtype.max)
    stacks = []
    for shard, device, stack in zip(mesh.transport.coordinates, mesh.devices, x.tensor_list, strict=True):
        coordinates = np.array(mesh.grid.processor_coordinates(shard))
        with tf.device(device):
            for place, axis, size, extent in tails:
                inside = coordinates[:, axis : axis + 1] * extent + np.arange(extent) < size
                lines = tf.reshape(stack, [len(inside), -1, extent, np.prod(x.slice_shape[place + 1 :], dtype=int)])
                filled = tf.where(inside[:, np.newaxis, :, np.newaxis], lines, tf.cast(value, stack.dtype))
                stack = tf.reshape(filled, stack.shape)
            stacks.append(stack)
    return type(x)(stacks)
