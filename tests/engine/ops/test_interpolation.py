"""The arithmetic of resizing and padding: the weights, the matrices of slices, and the halos."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.engine.ops.resize.interpolation import METHODS, Interpolation
from mtf_imaging.engine.ops.resize.padding import MODES, Padding
from mtf_imaging.engine.ops.resize.taps import plan_slices
from tests.engine.ops import resizing


def dense(taps, columns):
    """Returns the dense matrix of `Taps`."""
    matrix = np.zeros((taps.positions.shape[1], columns))
    for positions, weights in zip(taps.positions, taps.weights, strict=True):
        np.add.at(matrix, (np.arange(len(matrix)), positions), weights)
    return matrix


@st.composite
def paddings(draw):
    """Draws a `Padding`."""
    size, mode = draw(st.integers(1, 24)), draw(st.sampled_from(MODES))
    before, after = (draw(st.integers(0, {"constant": 20, "reflect": size - 1, "symmetric": size}[mode])) for _ in "ab")
    return Padding(size, before + size + after, before, mode)


@given(st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_linear_weights_equal_the_reference(size, outputs, align_corners):
    weights = dense(Interpolation(size, outputs, "linear", align_corners).taps(), size)
    np.testing.assert_allclose(weights, resizing.matrix(size, outputs, "linear", align_corners), atol=1e-13)


@pytest.mark.parametrize("align_corners", [False, True])
def test_nearest_equals_tensorflow_even_if_a_center_is_on_a_border(align_corners):
    for size in range(1, 65, 3):
        for outputs in range(1, 65):
            got = Interpolation(size, outputs, "nearest", align_corners).taps().positions[0]
            want = resizing.matrix(size, outputs, "nearest", align_corners)
            np.testing.assert_array_equal(np.eye(size)[got], want)


@given(st.integers(1, 40), st.integers(1, 40))
def test_repeated_voxels_equal_the_reference(size, outputs):
    weights = dense(Interpolation(size, outputs, "repeat").taps(), size)
    np.testing.assert_array_equal(weights, resizing.matrix(size, outputs, "repeat"))


@given(st.integers(1, 64))
def test_a_map_of_half_the_size_is_repeated_twice(outputs):
    (sources,) = Interpolation(-(-outputs // 2), outputs, "repeat").taps().positions
    np.testing.assert_array_equal(sources, np.arange(outputs) // 2)


@given(paddings())
def test_padding_equals_tensorflow(line):
    x, after = np.arange(1, line.size + 1), line.outputs - line.size - line.before
    want = tf.pad(x, [(line.before, after)], line.mode).numpy()
    np.testing.assert_array_equal(dense(line.taps(), line.size) @ x, want)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 7), st.sampled_from(METHODS), st.booleans())
def test_the_matrices_of_slices_are_blocks_of_the_whole_matrix(size, outputs, parts, method, align_corners):
    plan = _check_blocks(Interpolation(size, outputs, method, align_corners), parts)
    if not align_corners and size % parts == 0 == outputs % parts:
        assert max(plan.before, plan.after) <= 1
    np.testing.assert_allclose(plan.forward.weights.sum(1).ravel()[:outputs], 1)


@given(paddings(), st.integers(1, 7))
def test_the_matrices_of_padded_slices_are_blocks_of_the_whole_matrix(line, parts):
    _check_blocks(line, parts)


def test_slices_that_do_not_move_need_no_halo():
    plan = plan_slices(Padding(12, 18, 3, "constant"), 2)
    assert (plan.before, plan.after) == (0, 0)
    plan = plan_slices(Padding(12, 24, 12, "constant"), 4)  # The voxels of slice 0 are outputs of slice 2.
    assert (plan.before, plan.after) == (6, 0)


def _check_blocks(line, parts):
    """Checks that the widened slices contain all voxels of the matrix, and returns the plan."""
    plan = plan_slices(line, parts)
    m, q = -(-line.size // parts), -(-line.outputs // parts)
    assert min(plan.before, plan.after) >= 0
    dense_line = np.pad(dense(line.taps(), line.size), [(0, -line.outputs % parts), (0, -line.size % parts)])
    whole = np.pad(dense_line, [(0, 0), (plan.before, plan.after)])
    for i in range(parts):
        want = whole[i * q : (i + 1) * q, i * m : (i + 1) * m + plan.before + plan.after]
        got = dense(type(plan.forward)(plan.forward.positions[i], plan.forward.weights[i]), want.shape[1])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(want.sum(1), dense_line[i * q : (i + 1) * q].sum(1))
        adjoint = dense(type(plan.backward)(plan.backward.positions[i], plan.backward.weights[i]), q)
        np.testing.assert_array_equal(adjoint, want.T)
    return plan


@pytest.mark.parametrize("sizes", [(10, 3, 12), (4, 9, 5)])
def test_a_resized_volume_equals_scipy(sizes):
    ndimage = pytest.importorskip("scipy.ndimage")  # the engine itself does not need SciPy
    x = np.random.default_rng(0).standard_normal((5, 6, 8))
    zoom = [n / m for n, m in zip(sizes, x.shape, strict=True)]
    want = ndimage.zoom(x, zoom, order=1, mode="nearest", grid_mode=True)
    got = x
    for axis, size in enumerate(sizes):
        weights = dense(Interpolation(x.shape[axis], size, "linear").taps(), x.shape[axis])
        got = np.moveaxis(np.tensordot(weights, got, (1, axis)), 0, axis)
    np.testing.assert_allclose(got, want, atol=1e-12)
