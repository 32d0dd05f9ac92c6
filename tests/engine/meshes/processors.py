"""Converts the slices of all processors between one array `mesh sizes + slice shape` and the stacks of devices."""

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import make_mesh_impl
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

# (mesh sizes, number of devices): one device, one device per processor, and several processors per device.
GRIDS = [
    ((4,), 1),
    ((4,), 4),
    ((4,), 2),
    ((2, 3), 1),
    ((3, 2), 2),  # shards along the second dimension only
    ((4, 2), 4),  # shards along the first dimension only
    ((2, 4), 8),
    ((4, 4), 2),
    ((2, 2, 3), 4),
    ((2, 3, 2), 1),
]


def make_mesh(sizes, num_devices):
    """Creates a mesh on the first logical CPUs, under a layout that splits nothing."""
    shape = mtf.Shape([mtf.Dimension(f"axis{i}", size) for i, size in enumerate(sizes)])
    devices = [f"/device:CPU:{number}" for number in range(num_devices)]
    return ShardMeshImpl(shape, mtf.LayoutRules(set()), devices)


def numbers(mesh, slice_shape, dtype=np.float64):
    """Returns an array of distinct integers in random order, one for each element of each slice."""
    shape = [*mesh.grid.mesh, *slice_shape]
    return np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)


def same_everywhere(mesh, slice_shape):
    """Returns an array in which the slices of all processors are equal."""
    ndims = len(mesh.grid.mesh)
    values = numbers(mesh, slice_shape)
    return np.broadcast_to(values[(slice(1),) * ndims], values.shape)


def laid_out(mesh, values, once=False):
    """Converts an array of all processors to a laid-out tensor; `once` stores only the first slice of each shard."""
    stacks = []
    for shard, device in zip(mesh.transport.coordinates, mesh.devices, strict=True):
        processors = mesh.grid.processor_coordinates(shard)
        with tf.device(device):
            stacks.append(tf.identity(np.stack([values[at] for at in processors[: 1 if once else None]])))
    return LaidOutTensor(stacks)


def array(mesh, stacks):
    """Converts a list of stacks to an array of all processors; asserts that each stack is on its own device."""
    slices = {}
    for shard, stack, device in zip(mesh.transport.coordinates, stacks, mesh.devices, strict=True):
        assert stack.device.endswith(device), f"a stack for {device} is on {stack.device}"
        processors = mesh.grid.processor_coordinates(shard)
        assert stack.shape[0] in (1, len(processors))
        slices |= dict(zip(processors, np.broadcast_to(stack, [len(processors), *stack.shape[1:]]), strict=True))
    values = np.stack([slices[at] for at in np.ndindex(*mesh.grid.mesh)])
    return values.reshape([*mesh.grid.mesh, *values.shape[1:]])


def make_collective_mesh(sizes):
    """Creates a mesh with a shard in each process that this process has joined, under a layout that splits nothing."""
    mesh = ",".join(f"axis{i}:{size}" for i, size in enumerate(sizes))
    return make_mesh_impl("collective", Layout.parse(mesh, ""))
