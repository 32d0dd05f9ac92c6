"""Tails of uneven slices, on one device and on several."""

import types

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl

SHAPE = mtf.Shape([mtf.Dimension("x", 5), mtf.Dimension("y", 6), mtf.Dimension("z", 2), mtf.Dimension("c", 7)])
DEVICES = {"one device": 1, "two devices": 2, "a device per processor": 8}


def mesh_of(layout, devices):
    return ShardMeshImpl("rows:4,cols:2", layout, ["CPU:0"] * devices)


def tensor(shape):
    """Returns what importing and exporting need of an `mtf.Tensor`."""
    return types.SimpleNamespace(shape=shape)


def processors(mesh, x):
    """Returns {coordinates: slice}."""
    slices = {}
    for shard, stack in zip(mesh.transport.coordinates, x.tensor_list):
        slices |= dict(zip(mesh.grid.processor_coordinates(shard), stack.numpy()))
    return slices


@pytest.mark.parametrize("devices", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("layout", ["x:rows", "x:rows,c:cols", "c:rows", "x:cols,z:rows"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16, tf.int32])
def test_only_elements_beyond_the_whole_are_filled(layout, devices, dtype):
    mesh = mesh_of(layout, devices)
    n = mesh.grid.stack_size
    ones = LaidOutTensor(tf.ones([n, *mesh.slice_shape(SHAPE)], dtype) for _ in mesh.devices)
    filled = tails.fill(mesh, ones, tails.tails_of(mesh, SHAPE), 3)
    axes, sizes = mesh.split_axes(SHAPE), mesh.slice_shape(SHAPE)
    for at, values in processors(mesh, filled).items():
        expected = np.full(sizes, 3)
        true = [n if a is None else np.clip(n - at[a] * s, 0, s) for n, a, s in zip(SHAPE.to_integer_list, axes, sizes)]
        expected[tuple(slice(n) for n in true)] = 1
        np.testing.assert_array_equal(values.astype(np.float32), expected)


def test_devices_without_tails_do_nothing():
    mesh = mesh_of("x:rows", 4)
    x = LaidOutTensor(tf.ones([2, *mesh.slice_shape(SHAPE)]) for _ in mesh.devices)
    filled = tails.fill(mesh, x, tails.tails_of(mesh, SHAPE), 0)
    # Slices of 2, 2, 1 and 0 voxels.
    assert [a is b for a, b in zip(filled.tensor_list, x.tensor_list)] == [True, True, False, False]


def test_processors_that_share_a_slice_have_the_same_tails():
    mesh = mesh_of("x:rows", 4)
    shared = LaidOutTensor(tf.ones([1, *mesh.slice_shape(SHAPE)]) for _ in mesh.devices)
    filled = tails.fill(mesh, shared, tails.tails_of(mesh, SHAPE), 0)
    assert [float(tf.reduce_mean(stack)) for stack in filled.tensor_list] == [1, 1, 0.5, 0]


def test_equal_slices_have_no_tails():
    mesh = mesh_of("y:cols,z:cols", 1)
    assert tails.tails_of(mesh, mtf.Shape([mtf.Dimension("y", 6)])) == []
    assert tails.tails_of(mesh, mtf.Shape([mtf.Dimension("x", 5)])) == []


def test_names_restrict_the_tails():
    mesh = mesh_of("x:rows,c:cols", 1)
    assert tails.tails_of(mesh, SHAPE) == [(0, 0, 5, 2), (3, 1, 7, 4)]
    assert tails.tails_of(mesh, SHAPE, ["c", "y"]) == [(3, 1, 7, 4)]


@pytest.mark.parametrize("devices", DEVICES.values(), ids=list(DEVICES))
def test_a_gathered_dimension_has_no_tail_and_is_split_again(devices):
    mesh = mesh_of("x:rows,c:cols", devices)
    whole = np.random.default_rng(0).standard_normal(SHAPE.to_integer_list)
    x = mesh.import_tf_tensor(tensor(SHAPE), tf.constant(whole))
    dims = {axis: dim for dim, axis in enumerate(mesh.split_axes(SHAPE)) if axis is not None}
    gathered = tails.gather(mesh, x, dims, dict(enumerate(SHAPE.to_integer_list)))
    for values in processors(mesh, gathered).values():
        np.testing.assert_array_equal(values, whole)
    split = tails.scatter(mesh, gathered, dims)
    assert split.slice_shape == mesh.slice_shape(SHAPE)
    np.testing.assert_array_equal(mesh.export_to_tf_tensor(tensor(SHAPE), split), whole)


def test_an_imported_tensor_repeats_its_last_elements():
    """The elements of tails are legal values, for instance for an integer division."""
    mesh, shape = mesh_of("x:rows", 1), mtf.Shape([mtf.Dimension("x", 5)])
    x = mesh.import_tf_tensor(tensor(shape), tf.constant([1, 2, 3, 4, 5]))
    values = [list(processors(mesh, x)[row, 0]) for row in range(4)]
    assert values == [[1, 2], [3, 4], [5, 5], [5, 5]]


def test_regions_are_the_slices_with_true_elements():
    """Slices of 2, 2, 1 and 0 elements along x, of 4 and 3 along c."""
    mesh = mesh_of("x:rows,c:cols", 1)
    found = tails.regions(mesh, tails.tails_of(mesh, SHAPE), (0, 0))
    regions = {tuple(sorted(region.sizes.items())): region.places for region in found}
    assert regions == {
        ((0, 2), (3, 4)): {0: [0, 1], 1: [0]},
        ((0, 2), (3, 3)): {0: [0, 1], 1: [1]},
        ((0, 1), (3, 4)): {0: [2], 1: [0]},
        ((0, 1), (3, 3)): {0: [2], 1: [1]},
    }


@pytest.mark.parametrize("devices", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize(("size", "ones"), [(5, [1, 1, 1, 0]), (6, [1, 1, 1, 0]), (7, [1, 1, 1, 1])])
def test_only_empty_slices_become_zero(size, ones, devices):
    mesh, shape = mesh_of("x:rows", devices), mtf.Shape([mtf.Dimension("x", size)])
    x = LaidOutTensor(tf.ones([mesh.grid.stack_size]) for _ in mesh.devices)
    zeroed = tails.zero_empty_slices(mesh, x, tails.tails_of(mesh, shape))
    slices = processors(mesh, zeroed)
    assert [float(slices[row, 0]) for row in range(4)] == ones
