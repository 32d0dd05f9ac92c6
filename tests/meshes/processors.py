"""The slices of all processors of a mesh, as one array `mesh sizes + slice shape`, and as the stacks of its devices."""

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

# (mesh sizes, devices): simulated on one device, a device a processor, and what lies between.
GRIDS = [
    ((4,), 1),
    ((4,), 4),
    ((4,), 2),
    ((2, 3), 1),
    ((3, 2), 2),  # blocks along the second dimension only
    ((4, 2), 4),  # along the first only
    ((2, 4), 8),
    ((4, 4), 2),
    ((2, 2, 3), 4),
    ((2, 3, 2), 1),
]


def make_mesh(sizes, num_devices):
    """A mesh of these sizes on the first logical CPUs, under a layout that splits nothing."""
    shape = mtf.Shape([mtf.Dimension(f"axis{i}", size) for i, size in enumerate(sizes)])
    devices = [f"/device:CPU:{number}" for number in range(num_devices)]
    return ShardMeshImpl(shape, mtf.LayoutRules(set()), devices)


def numbers(mesh, slice_shape, dtype=np.float64):
    """A different whole number at every place of every processor's slice, in no order."""
    shape = [*mesh.grid.mesh, *slice_shape]
    return np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)


def same_everywhere(mesh, slice_shape):
    """One slice, which all processors share."""
    ndims = len(mesh.grid.mesh)
    values = numbers(mesh, slice_shape)
    return np.broadcast_to(values[(slice(1),) * ndims], values.shape)


def laid_out(mesh, values, once=False):
    """The laid-out tensor of an array of all processors; of its first processor alone where it is held once."""
    stacks = []
    for block, device in zip(mesh.grid.shard_coordinates(), mesh.devices, strict=True):
        processors = mesh.grid.processor_coordinates(block)
        with tf.device(device):
            stacks.append(tf.identity(np.stack([values[at] for at in processors[: 1 if once else None]])))
    return LaidOutTensor(stacks)


def array(mesh, stacks):
    """The array of all processors of a list of stacks, each of which must be on its own device."""
    slices = {}
    for block, stack, device in zip(mesh.grid.shard_coordinates(), stacks, mesh.devices, strict=True):
        assert stack.device.endswith(device), f"a stack for {device} is on {stack.device}"
        processors = mesh.grid.processor_coordinates(block)
        assert stack.shape[0] in (1, len(processors))
        slices |= dict(zip(processors, np.broadcast_to(stack, [len(processors), *stack.shape[1:]]), strict=True))
    values = np.stack([slices[at] for at in np.ndindex(*mesh.grid.mesh)])
    return values.reshape([*mesh.grid.mesh, *values.shape[1:]])
