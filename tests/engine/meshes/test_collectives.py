"""Collectives, compared with NumPy on an array of the slices of all processors, without a layout or a program."""

import itertools

import numpy as np
import pytest

from mtf_imaging.engine.meshes import collectives
from tests.engine.meshes.processors import GRIDS, array, laid_out, make_mesh, numbers, same_everywhere

pytestmark = [
    pytest.mark.parametrize("grid", GRIDS, ids=str),
    pytest.mark.parametrize("once", [False, True], ids=["stacks", "once"]),
]


class Slices:
    """The slices of all processors of a mesh, either distinct or stored once.

    Attributes:
      mesh: the mesh.
      values: Array[mesh sizes + slice shape]
      ndims: number of mesh dimensions, which precede the slice dimensions.
      args: the first arguments of a collective.
    """

    def __init__(self, grid, once, slice_shape):
        self.mesh = make_mesh(*grid)
        self.values = (same_everywhere if once else numbers)(self.mesh, slice_shape)
        self.ndims = len(self.mesh.grid.mesh)
        self.args = laid_out(self.mesh, self.values, once).tensor_list, self.mesh.transport

    def check(self, stacks, expected, size=None):
        """Compares stacks with an array of all processors, and the number of slices per stack with `size`."""
        np.testing.assert_array_equal(array(self.mesh, stacks), expected)
        if size is not None:
            assert {stack.shape[0] for stack in stacks} == {size}


def _axes(grid):
    """Returns every non-empty set of mesh dimensions."""
    return [axes for count in (1, 2, 3) for axes in itertools.combinations(range(len(grid[0])), count)]


@pytest.mark.parametrize(("reduction", "reduce"), [("SUM", np.sum), ("MAX", np.max), ("MIN", np.min)])
def test_allreduce(grid, once, reduction, reduce):
    x = Slices(grid, once, (3, 2))
    for axes in _axes(grid):
        expected = np.broadcast_to(reduce(x.values, axis=axes, keepdims=True), x.values.shape)
        everywhere = len(axes) == x.ndims
        size = 1 if once or everywhere else None
        x.check(collectives.allreduce(*x.args, axes, reduction), expected, size)


def test_axes_are_reduced_once_and_in_any_order(grid, once):
    x = Slices(grid, once, (3, 2))
    axes = range(x.ndims)
    expected = np.broadcast_to(x.values.sum(tuple(axes), keepdims=True), x.values.shape)
    x.check(collectives.allreduce(*x.args, [*reversed(axes), 0], "SUM"), expected)


def test_sum_shards(grid, once):
    """Stacks are summed elementwise, not over their slices."""
    x = Slices(grid, once, (3, 2))
    stacks = [stack.numpy() for stack in x.args[0]]
    boxes = np.reshape(stacks, [*x.mesh.grid.shards, *stacks[0].shape])
    for axes in _axes(grid):
        expected = np.broadcast_to(boxes.sum(axes, keepdims=True), boxes.shape).reshape([-1, *stacks[0].shape])
        for everywhere in (True, False):
            totals = x.mesh.transport.reduce(x.args[0], axes, "SUM", everywhere)
            for actual, device, total in zip(totals, x.mesh.devices, expected, strict=True):
                assert actual.device.endswith(device)
                np.testing.assert_array_equal(actual, total)


def _allconcat(x, dims):
    values = x.values
    for axis, dim in dims.items():
        size = values.shape[axis]
        joined = np.concatenate(np.split(values, size, axis), x.ndims + dim)
        values = np.repeat(joined, size, axis)
    return values


def test_allconcat(grid, once):
    x = Slices(grid, once, (2, 3, 1))
    for axis, dim in itertools.product(range(x.ndims), range(3)):
        x.check(collectives.allconcat(*x.args, {axis: dim}), _allconcat(x, {axis: dim}), 1 if once else None)


@pytest.mark.mostly_slow(fast=0.4)
def test_allconcat_along_several_mesh_dimensions(grid, once):
    x = Slices(grid, once, (2, 3, 1))
    for dims in itertools.product(range(3), repeat=x.ndims):
        for order in (dims, dims[::-1]):
            dims = dict(zip(range(x.ndims), order, strict=True))
            x.check(collectives.allconcat(*x.args, dims), _allconcat(x, dims), 1)
            dims = dict(reversed(dims.items()))
            x.check(collectives.allconcat(*x.args, dims), _allconcat(x, dims), 1)


def _allsplit(x, dims):
    """Returns the expected slices: processor i keeps piece i."""
    values = x.values
    for axis, dim in dims.items():
        parts = np.split(values, values.shape[axis], x.ndims + dim)
        values = np.concatenate([np.take(part, [i], axis) for i, part in enumerate(parts)], axis)
    return values


def test_allsplit(grid, once):
    x = Slices(grid, once, (12, 12, 2))
    for axis, dim in itertools.product(range(x.ndims), range(2)):
        size = x.mesh.grid.stack_size
        x.check(collectives.allsplit(*x.args, {axis: dim}), _allsplit(x, {axis: dim}), size)


def test_allsplit_along_several_mesh_dimensions(grid, once):
    x = Slices(grid, once, (48, 12, 1))  # 48 is divisible by the sizes of any two mesh dimensions
    for first, second in itertools.permutations(range(x.ndims), 2):
        for dims in ({first: 0, second: 1}, {first: 0, second: 0}):
            x.check(collectives.allsplit(*x.args, dims), _allsplit(x, dims))


def _alltoall(x, axis, split_dim, concat_dim):
    """Returns the expected slices: processor j gets piece j of every slice, concatenated."""
    size, targets = x.values.shape[axis], []
    for part in np.split(x.values, size, x.ndims + split_dim):
        targets.append(np.concatenate(np.split(part, size, axis), x.ndims + concat_dim))
    return np.concatenate(targets, axis)


def test_alltoall(grid, once):
    x = Slices(grid, once, (12, 12, 2))
    for axis, split_dim, concat_dim in itertools.product(range(x.ndims), range(2), range(3)):
        actual = collectives.alltoall(*x.args, axis, split_dim, concat_dim)
        x.check(actual, _alltoall(x, axis, split_dim, concat_dim))


def test_alltoall_there_and_back(grid, once):
    x = Slices(grid, once, (12, 12, 2))
    for axis in range(x.ndims):
        there = collectives.alltoall(*x.args, axis, 0, 1)
        x.check(collectives.alltoall(there, *x.args[1:], axis, 1, 0), x.values)


def _sources(size):
    """Yields lists with the source of each of `size` processors."""
    yield list(range(size))
    yield [(i + 1) % size for i in range(size)]
    yield [i - 1 if i else None for i in range(size)]
    yield [i + 1 if i + 1 < size else None for i in range(size)]
    yield [size - 1 - i for i in range(size)]
    yield [0] * size
    yield [None] * size


def test_receive(grid, once):
    x = Slices(grid, once, (3, 2))
    for axis in range(x.ndims):
        for sources in _sources(x.values.shape[axis]):
            filler = np.full_like(np.take(x.values, [0], axis), -7)
            slices = [filler if source is None else np.take(x.values, [source], axis) for source in sources]
            actual = collectives.receive(*x.args, axis, sources, -7)
            x.check(actual, np.concatenate(slices, axis), x.mesh.grid.stack_size)
