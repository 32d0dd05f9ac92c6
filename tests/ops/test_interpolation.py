"""The arithmetic of a resize: the weights, the matrices of slices, and halos of at most one voxel."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from mtf_imaging.ops.resize.interpolation import METHODS, interpolate, plan_slices
from tests.ops import resizing


def dense(taps, columns):
    """Returns the dense matrix of `Taps`."""
    matrix = np.zeros((taps.positions.shape[1], columns))
    for positions, weights in zip(taps.positions, taps.weights, strict=True):
        np.add.at(matrix, (np.arange(len(matrix)), positions), weights)
    return matrix


@st.composite
def splits(draw):
    """Draws (size, outputs, parts), where `parts` divides the other two."""
    parts = draw(st.integers(1, 5))
    return parts * draw(st.integers(1, 9)), parts * draw(st.integers(1, 9)), parts


@given(st.integers(1, 40), st.integers(1, 40))
def test_linear_weights_equal_the_reference(size, outputs):
    weights = dense(interpolate(size, outputs, "linear"), size)
    np.testing.assert_allclose(weights, resizing.matrix(size, outputs, "linear"), atol=1e-13)


def test_nearest_equals_tensorflow_even_if_a_center_is_on_a_border():
    for size in range(1, 65, 3):
        for outputs in range(1, 65):
            line = tf.reshape(tf.range(size), [1, size, 1, 1])
            want = tf.image.resize(line, [outputs, 1], "nearest").numpy().ravel()
            np.testing.assert_array_equal(interpolate(size, outputs, "nearest").positions[0], want)


@given(splits(), st.sampled_from(METHODS))
def test_the_matrices_of_slices_are_blocks_of_the_whole_matrix(split, method):
    size, outputs, parts = split
    plan = plan_slices(size, outputs, parts, method)
    m, q = size // parts, outputs // parts
    assert 0 <= plan.before <= 1
    assert 0 <= plan.after <= 1
    whole = np.pad(dense(interpolate(size, outputs, method), size), [(0, 0), (plan.before, plan.after)])
    for i in range(parts):
        want = whole[i * q : (i + 1) * q, i * m : (i + 1) * m + plan.before + plan.after]
        got = dense(type(plan.forward)(plan.forward.positions[i], plan.forward.weights[i]), want.shape[1])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_allclose(want.sum(1), 1)  # The widened slice contains all voxels that it needs.
        adjoint = dense(type(plan.backward)(plan.backward.positions[i], plan.backward.weights[i]), q)
        np.testing.assert_array_equal(adjoint, want.T)


@pytest.mark.parametrize("sizes", [(10, 3, 12), (4, 9, 5)])
def test_a_resized_volume_equals_scipy(sizes):
    x = np.random.default_rng(0).standard_normal((5, 6, 8))
    zoom = [n / m for n, m in zip(sizes, x.shape, strict=True)]
    want = ndimage.zoom(x, zoom, order=1, mode="nearest", grid_mode=True)
    got = x
    for axis, size in enumerate(sizes):
        weights = dense(interpolate(x.shape[axis], size, "linear"), x.shape[axis])
        got = np.moveaxis(np.tensordot(weights, got, (1, axis)), 0, axis)
    np.testing.assert_allclose(got, want, atol=1e-12)
