"""Positions and weights of sliding windows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.windows import SlidingWindow, Windows, axis_windows

sizes = st.tuples(st.integers(1, 40), st.integers(0, 200))  # of a window, and how much larger the image is
steps = st.floats(0.01, 1)


@given(sizes, steps)
def test_windows_cover_the_axis_evenly(size, step):
    window, more = size
    starts, _ = axis_windows(window + more, window, step)
    assert (starts[0], starts[-1]) == (0, more)
    gaps = np.diff(starts)
    assert np.all(gaps <= max(1, step * window + 1e-6)), "a gap is larger than the step"
    assert np.ptp(gaps) <= 1 if len(gaps) else more == 0
    fewest = -(-more // max(1, math.floor(step * window + 1e-6))) + 1
    assert len(starts) == fewest


@pytest.mark.parametrize(("window", "step"), [(32, 0.3), (100, 0.29), (33, 0.5), (19, 0.5), (8, 0.5)])
def test_windows_are_never_farther_apart_than_the_step(window, step):
    """A whole step gives as many windows as in nnU-Net."""
    assert len(axis_windows(158, 100, 0.29).starts) == 3  # in floating point, 0.29 * 100 is less than 29
    for more in range(200):
        starts, _ = axis_windows(window + more, window, step)
        assert max(np.diff(starts), default=0) <= step * window + 1e-9
        if step == 0.5 and window % 2 == 0:
            assert len(starts) == math.ceil(more / (window * step)) + 1


@given(sizes, steps)
def test_the_weights_sum_to_one_at_each_voxel(size, step):
    window, more = size
    starts, weights = axis_windows(window + more, window, step)
    assert weights.shape == (len(starts), window)
    assert (weights > 0).all()
    total = np.zeros(window + more)
    for start, each in zip(starts, weights, strict=True):
        total[start : start + window] += each
    np.testing.assert_allclose(total, 1, rtol=1e-14)


@given(sizes, steps)
def test_windows_are_mirror_images(size, step):
    """All but a middle window between two voxels."""
    window, more = size
    starts, weights = axis_windows(window + more, window, step)
    mirrored = [more - start for start in reversed(starts)]
    if len(starts) % 2 and more % 2:
        middle = len(starts) // 2
        assert mirrored[middle] - starts[middle] == 1
        assert mirrored[:middle] == [*starts[:middle]]
    else:
        assert mirrored == [*starts]
        np.testing.assert_allclose(weights[::-1, ::-1], weights, rtol=1e-12)


def test_the_weights_are_those_of_gaussians():
    """Two windows of 8 voxels with a standard deviation of one voxel, whose centers are 3.5 and 7.5."""
    starts, weights = axis_windows(12, 8)
    assert starts == (0, 4)
    np.testing.assert_array_equal(weights[0, :4], 1)
    for voxel in range(4, 8):
        first, second = (np.exp(-((voxel - center) ** 2) / 2) for center in (3.5, 7.5))
        assert weights[0, voxel] == pytest.approx(first / (first + second), rel=1e-12)
        assert weights[1, voxel - 4] == pytest.approx(second / (first + second), rel=1e-12)


def test_the_order_of_windows():
    """Five windows along x, one along y, two along z; the weight of a voxel is the product of those of the axes."""
    windows = Windows((12, 5, 6), SlidingWindow((4, 5, 4)))
    assert len(windows) == 5 * 1 * 2
    assert windows.region(3) == (slice(2, 6), slice(0, 5), slice(2, 6))
    total = np.zeros((12, 5, 6))
    for number in range(len(windows)):
        x, y, z = windows.weights(number)
        total[windows.region(number)] += x[:, None, None] * y[:, None] * z
    np.testing.assert_allclose(total, 1, rtol=1e-14)


@pytest.mark.parametrize("size", [(16, 16), (17, 4, 4), (4, 4, 9)])
def test_a_window_that_does_not_fit(size):
    message = f"window of {' x '.join(map(str, size))} voxels does not fit into the grid of 16 x 8 x 8 voxels"
    with pytest.raises(ConfigError, match=message) as caught:
        Windows((16, 8, 8), SlidingWindow(size))
    assert caught.value.settings == ("sliding_window",)
