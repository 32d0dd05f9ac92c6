"""The regions of a whole tensor that the shards of several processes store."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.meshes import whole
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.transport import InProcess
from mtf_imaging.engine.meshes.transport.between_processes import BetweenProcesses, Numbers

GRIDS = [((4,), 4), ((4,), 2), ((6,), 3), ((2, 2), 4), ((4, 3), 4), ((2, 3), 6), ((2, 4, 2), 8)]


def _transports(mesh, num):
    grid = ShardGrid.make(mesh, num)
    return [BetweenProcesses(grid, number, "CPU:0", Numbers()) for number in range(num)]


def _splits(mesh):
    """Returns, for a tensor of two dimensions, every pair of different mesh axes."""
    axes = [None, *range(len(mesh))]
    return [pair for pair in itertools.product(axes, repeat=2) if None in pair or pair[0] != pair[1]]


@pytest.mark.parametrize(("mesh", "num"), GRIDS)
def test_regions_consist_of_the_slices_of_their_processors(mesh, num):
    for transport, split, sizes in itertools.product(_transports(mesh, num), _splits(mesh), [(1, 2), (5, 8), (13, 7)]):
        (shard,) = transport.coordinates
        processors = transport.grid.processor_coordinates(shard)
        for part, size, axis in zip(whole.region(sizes, split, transport), sizes, split, strict=True):
            covered = set(range(part.start, part.stop))
            if axis is None:
                assert covered == set(range(size))
                continue
            width = -(-size // mesh[axis])
            own = {at[axis] for at in processors}
            assert covered == {i for i in range(size) if i // width in own}


@pytest.mark.parametrize(("mesh", "num"), GRIDS)
def test_a_box_is_as_large_as_the_largest_region(mesh, num):
    transports = _transports(mesh, num)
    for split, sizes in itertools.product(_splits(mesh), [(1, 2), (5, 8), (13, 7)]):
        box = whole.box_shape(sizes, split, transports[0].grid)
        regions = [[part.stop - part.start for part in whole.region(sizes, split, t)] for t in transports]
        for dim, axis in enumerate(split):
            largest = max(region[dim] for region in regions)
            assert largest <= box[dim]
            if axis is None or sizes[dim] % mesh[axis] == 0:
                assert {region[dim] for region in regions} == {box[dim]}


@pytest.mark.parametrize(("mesh", "num"), GRIDS)
def test_a_true_box_has_the_elements_of_a_region(mesh, num):
    transport = InProcess(ShardGrid.make(mesh, num), ["CPU:0"] * num)
    for split, sizes in itertools.product(_splits(mesh), [(1, 2), (5, 8), (13, 7)]):
        values = np.random.default_rng(0).standard_normal(sizes)
        stacks = whole.scatter(tf.constant(values), split, transport, "CPU:0")
        for stack, shard, own in zip(stacks, transport.coordinates, _transports(mesh, num), strict=True):
            box = whole.true_box(stack, split, sizes, transport.grid, shard)
            np.testing.assert_array_equal(box, values[whole.region(sizes, split, own)])


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8", "bfloat16"])
def test_a_box_extends_a_region_by_its_last_elements(dtype):
    part = tf.cast(np.arange(6).reshape(2, 3) % 2, dtype)
    box = whole.fill_box(part, [4, 5])
    assert box.dtype == part.dtype
    np.testing.assert_array_equal(box, np.pad(part, [(0, 2), (0, 2)], "edge"))
    np.testing.assert_array_equal(whole.fill_box(part, [2, 3]), part)
    empty = whole.fill_box(part[:0], [4, 5])
    assert (empty.shape, empty.dtype) == ([4, 5], part.dtype)
    assert not np.any(tf.cast(empty, tf.bool))


def test_one_process_stores_the_whole():
    (transport,) = _transports((1,), 1)
    assert whole.region([5, 3], [0, None], transport) == (slice(0, 5), slice(0, 3))
