"""Slices widened by their neighbors' voxels, and the adjoint, compared with NumPy on the whole tensor."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.meshes import halo
from mtf_imaging.meshes.halo import gathering as halo_gather
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

mtf = mi.mtf


def _mesh(sizes, num_devices):
    names = ["rows", "cols", "planes"][: len(sizes)]
    shape = mtf.Shape([mtf.Dimension(*item) for item in zip(names, sizes, strict=True)])
    rules = ",".join(f"{dim}:{name}" for dim, name in zip("xyz", names, strict=False))
    devices = [f"/device:CPU:{number}" for number in range(num_devices)]
    return ShardMeshImpl(shape, mtf.convert_to_layout_rules(rules), devices)


class Split:
    """A tensor `[batch, x, y, channels]` over a mesh, x over its first dimension, y over its second (if any)."""

    def __init__(self, mesh_sizes, num_devices, sizes, reaches, channels=2):
        self.mesh = _mesh(mesh_sizes, num_devices)
        self.parts = (*mesh_sizes, 1)[:2]
        self.slice_shape = [2, *sizes, channels]
        self.margins = [
            halo.Margin(1 + i, size, before, after, i if i < len(mesh_sizes) else None)
            for i, (size, (before, after)) in enumerate(zip(sizes, reaches, strict=True))
        ]

    def tensor(self, slices):
        """A laid-out tensor of {mesh coordinates: slice}."""
        stacks = []
        for shard in self.mesh.grid.shard_coordinates():
            stacks.append(tf.constant(np.stack([slices[at] for at in self.mesh.grid.processor_coordinates(shard)])))
        return LaidOutTensor(stacks)

    def slices(self, tensor):
        found = {}
        for shard, stack in zip(self.mesh.grid.shard_coordinates(), tensor.tensor_list, strict=True):
            found |= dict(zip(self.mesh.grid.processor_coordinates(shard), stack.numpy(), strict=True))
        return found

    def windows(self, whole, fill):
        """{mesh coordinates: widened slice} of the whole tensor, by NumPy."""
        pads = [(0, 0), *((m.before, m.after) for m in self.margins), (0, 0)]
        padded, found = np.pad(whole, pads, constant_values=fill), {}
        for at in itertools.product(*(range(n) for n in self.mesh.grid.mesh)):
            index = [slice(None)]
            for m, i in zip(self.margins, (*at, 0), strict=False):
                index.append(slice(i * m.size, i * m.size + m.before + m.size + m.after))
            found[at] = padded[tuple(index)]
        return found

    def cut(self, whole):
        """{mesh coordinates: slice}"""
        none = Split.__new__(Split)
        none.mesh, none.margins = self.mesh, [halo.Margin(m.dim, m.size, 0, 0, m.mesh_axis) for m in self.margins]
        return none.windows(whole, 0)

    @property
    def whole_shape(self):
        sizes = [m.size * n for m, n in zip(self.margins, self.parts, strict=True)]
        return [self.slice_shape[0], *sizes, self.slice_shape[-1]]


SPLITS = [
    # mesh, devices, voxels of a slice along x and y, (before, after) along x and y, channels
    ((4,), 4, (3, 5), ((1, 2), (0, 0)), 2),
    ((4,), 2, (3, 5), ((1, 2), (1, 1)), 2),
    ((8,), 4, (1, 5), ((3, 0), (0, 0)), 2),
    ((8,), 8, (1, 5), ((3, 4), (1, 0)), 2),
    ((8,), 1, (2, 5), ((5, 6), (1, 0)), 2),
    ((8,), 2, (2, 3), ((0, 5), (0, 0)), 2),
    ((8,), 2, (1, 3), ((20, 9), (1, 1)), 2),
    ((4, 2), 4, (2, 3), ((5, 3), (1, 1)), 2),
    ((4, 2), 2, (2, 3), ((1, 1), (4, 5)), 2),
    ((2, 4), 8, (3, 1), ((1, 1), (2, 3)), 2),
    ((4, 4), 4, (1, 1), ((3, 2), (2, 3)), 2),
    ((4, 4), 1, (1, 2), ((3, 2), (5, 3)), 32),
    ((4, 4), 2, (1, 2), ((3, 2), (5, 3)), 32),
    ((3, 2), 2, (2, 2), ((1, 3), (3, 1)), 1),
]


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_slices_are_widened_as_the_whole_tensor_is_padded(split):
    split = Split(*split)
    whole = np.random.default_rng(0).standard_normal(split.whole_shape)
    wide = split.slices(halo.widen(split.mesh, split.tensor(split.cut(whole)), split.margins, fill=-7))
    expected = split.windows(whole, -7)
    assert wide.keys() == expected.keys()
    for at, value in expected.items():
        np.testing.assert_array_equal(wide[at], value)


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_narrow_is_the_adjoint(split):
    """`<widen(x), dy> = <x, narrow(dy)>`, voxel by voxel: a gradient goes to the voxel that its copies were made of."""
    split = Split(*split)
    numbers = np.arange(np.prod(split.whole_shape)).reshape(split.whole_shape)
    rng, expected, gradients = np.random.default_rng(0), np.zeros(split.whole_shape), {}
    for at, sources in split.windows(numbers, -1).items():
        gradients[at] = rng.standard_normal(sources.shape)
        np.add.at(expected.reshape(-1), sources[sources >= 0], gradients[at][sources >= 0])
    narrow = split.slices(halo.narrow(split.mesh, split.tensor(gradients), split.margins))
    for at, value in split.cut(expected).items():
        np.testing.assert_allclose(narrow[at], value, atol=1e-12)


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_a_mesh_notes_what_is_exchanged(split):
    split = Split(*split)
    x = split.tensor(split.cut(np.zeros(split.whole_shape)))
    for adjoint, fn in ((False, halo.widen), (True, halo.narrow)):
        split.mesh.exchanged.clear()
        made = fn(split.mesh, x, split.margins)
        counts = collections.Counter(split.mesh.exchanged)
        reached = 0 if adjoint else halo_gather.reach(split.mesh, x.tensor_list[0], split.margins)
        first = sorted(split.margins, key=lambda m: not halo_gather.is_gathered(split.mesh, m, reached))
        assert counts == collections.Counter(halo.exchanges(split.mesh, first, split.slice_shape, 8, adjoint))
        assert all(exchange.sent_by_all(split.mesh.grid.mesh) for exchange in counts), "somebody sends each of them"
        x = made


def _nodes(x, dilation):
    """Nodes of a dilated convolution over 16 slices on 4 devices, with its gradients."""

    def step(image, kernel):
        y = mi.ops.conv3d(image, kernel, dilations=(dilation, 1, 1))
        return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])

    inputs = {"image": f"batch:1,x:{x},y:4,z:4,channels:2", "kernel": "kx:3,ky:1,kz:1,channels:2,filters:2"}
    devices = [f"/device:CPU:{number}" for number in range(4)]
    return mi.Program(step, inputs, "rows:16", "x:rows", "placement", devices=devices).num_nodes


def test_a_graph_does_not_grow_with_the_slices_that_a_halo_reaches_past():
    """15 slices of a single voxel on either side, or a voxel of the next slice alone."""
    assert _nodes(16, 15) < 1.2 * _nodes(32, 1)
