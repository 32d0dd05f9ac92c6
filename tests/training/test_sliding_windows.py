"""Positions and weights of sliding windows."""

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.windows import SlidingWindow, Windows, axis_windows

sizes = st.tuples(st.integers(1, 40), st.integers(0, 200))  # of a window, and how much larger the image is
steps = st.floats(0.01, 1)


def starts_in_nnunet(size, window, step):
    """Returns the first voxel of each window as nnU-Net 2 computes it, in floating point."""
    number = int(np.ceil((size - window) / (window * step))) + 1
    between = (size - window) / (number - 1) if number > 1 else 0
    return [int(np.round(between * i)) for i in range(number)]


@pytest.mark.parametrize("window", [4, 5, 16, 33])
def test_windows_start_where_those_of_nnunet_do(window):
    for more in range(100):
        starts, _ = axis_windows(window + more, window)
        assert [*starts] == starts_in_nnunet(window + more, window, 0.5)


@given(sizes, steps)
def test_windows_cover_the_axis_evenly(size, step):
    window, more = size
    starts, _ = axis_windows(window + more, window, step)
    assert (starts[0], starts[-1]) == (0, more)
    gaps = np.diff(starts)
    assert gaps.mean() <= max(1, step * window + 1e-6) if len(gaps) else more == 0
    assert (gaps > 0).all() and np.ptp([*gaps, *gaps[:1]]) <= 1 if len(gaps) else True


def test_rounding_adds_no_window():
    assert len(axis_windows(158, 100, 0.29).starts) == 3  # in floating point, 0.29 * 100 is less than 29


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


@pytest.mark.parametrize("window", [1, 2, 7, 8])
def test_the_weights_are_those_of_nnunet(window):
    """nnU-Net filters an image of one voxel in the middle of a window, and divides by the sum of all windows."""
    middle = np.zeros(window)
    middle[window // 2] = 1
    gaussian = scipy.ndimage.gaussian_filter(middle, window / 8, mode="constant")
    starts, weights = axis_windows(3 * window, window)
    total = np.zeros(3 * window)
    for start in starts:
        total[start : start + window] += gaussian
    for start, each in zip(starts, weights, strict=True):
        np.testing.assert_allclose(each, gaussian / total[start : start + window], rtol=1e-12)


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
