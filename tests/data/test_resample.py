import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.data.sampling.grid import parse_grid
from mtf_imaging.data.sampling.sampling import whole_field
from mtf_imaging.errors import DataError, LayoutError
from tests.data.resampling import resample_linear, resample_nearest, resample_to_labels


def linear(data, grid):
    return resample_linear(data, whole_field(data.shape[:3], grid))


def to_labels(probabilities, grid):
    return resample_to_labels(probabilities, whole_field(probabilities.shape[:3], grid))


sizes = st.tuples(*[st.integers(1, 9)] * 3)


def linear_1d(values, g):
    """Computes the documented formula one output at a time: a triangle of radius max(1, n / g) around each center."""
    n = len(values)
    result = []
    for j in range(g):
        center = (j + 0.5) * n / g
        weights = [max(0.0, 1 - abs(i + 0.5 - center) / max(1.0, n / g)) for i in range(n)]
        result.append(np.dot(weights, values) / sum(weights))
    return np.array(result)


@given(sizes, sizes)
def test_linear_is_a_triangle_along_each_axis(shape, grid):
    data = np.random.default_rng(0).normal(size=shape)
    expected = data
    for axis in range(3):
        expected = np.apply_along_axis(linear_1d, axis, expected, grid[axis])
    result = linear(data, grid)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_linear_agrees_with_tensorflow():
    import tensorflow as tf

    data = np.random.default_rng(0).normal(size=(13, 7, 6)).astype(np.float32)
    for size in ((5, 20), (26, 3)):
        expected = tf.image.resize(data, size, "bilinear", antialias=True)
        np.testing.assert_allclose(linear(data, (*size, 6)), expected, atol=1e-5)


def test_large_volumes_are_resampled_in_slabs(monkeypatch):
    data = np.random.default_rng(0).integers(-1000, 1000, (12, 9, 10), dtype=np.int16)
    probabilities = np.random.default_rng(1).random((5, 4, 6, 3))
    whole, labels = linear(data, (5, 14, 6)), to_labels(probabilities, (9, 9, 11))
    for module in ("tests.data.resampling", "mtf_imaging.data.sampling.label_region"):
        monkeypatch.setattr(f"{module}._SLAB_BYTES", 2000)
    np.testing.assert_array_equal(linear(data, (5, 14, 6)), whole)
    np.testing.assert_array_equal(to_labels(probabilities, (9, 9, 11)), labels)


def test_linear_keeps_a_ramp_in_place():
    """With half-pixel centers, a resampled ramp has the position of each center as its value, except at the border."""
    ramp = np.broadcast_to((np.arange(32) + 0.5)[:, None, None], (32, 2, 2))
    # If n / g is not an integer, a triangle over several voxels is off balance by less than 0.1 voxel.
    for g, tolerance in ((8, 1e-4), (16, 1e-4), (20, 0.1), (32, 1e-4), (50, 1e-4)):
        result = linear(ramp, (g, 2, 2))[:, 0, 0]
        centers = (np.arange(g) + 0.5) * 32 / g
        inner = (centers > 5) & (centers < 27)
        np.testing.assert_allclose(result[inner], centers[inner], atol=tolerance)


@given(sizes, sizes)
def test_nearest_takes_the_voxel_under_each_center(shape, grid):
    labels = np.arange(np.prod(shape)).reshape(shape)
    result = resample_nearest(labels, whole_field(shape, grid))
    assert result.shape == grid
    for index in np.ndindex(grid):
        under = tuple((2 * j + 1) * n // (2 * g) for j, n, g in zip(index, shape, grid, strict=True))
        assert result[index] == labels[under]


def test_one_hot_probabilities_are_resampled_to_the_labels():
    labels = np.random.default_rng(0).integers(0, 3, (6, 5, 4))
    one_hot = np.eye(3)[labels]
    np.testing.assert_array_equal(to_labels(one_hot, (6, 5, 4)), labels)
    # At three times the resolution, the middle third of each voxel keeps its label along every axis.
    finer = to_labels(one_hot, (18, 15, 12))
    assert finer.dtype == np.uint8
    np.testing.assert_array_equal(finer[1::3, 1::3, 1::3], labels)


def test_probabilities_are_interpolated_before_the_arg_max():
    probabilities = np.zeros((2, 1, 1, 2))
    probabilities[0, 0, 0], probabilities[1, 0, 0] = (0.9, 0.1), (0.45, 0.55)
    # Along x, the second class exceeds 1/2 at 8/9 of the way. Nearest labels would change halfway.
    assert to_labels(probabilities, (20, 1, 1)).ravel().tolist() == [0] * 14 + [1] * 6


def test_resolution_strings():
    assert parse_grid(" 16 ") == (16, 16, 16)
    assert parse_grid(16) == (16, 16, 16)
    assert parse_grid("y:3;z:4;x:2") == (2, 3, 4)
    for bad in ("0", "x:4,y:4", "x:4,y:4,z:4,t:2", ""):
        with pytest.raises(DataError, match="needs a positive size for x, y and z"):
            parse_grid(bad)
    for bad in ("64x64x64", "64,64,64", "-64"):
        with pytest.raises(LayoutError, match=r"\n  Fix: give, for example, '64' or 'x:192,y:192,z:96'\.$"):
            parse_grid(bad)


def test_ties_are_resolved_to_the_first_class():
    probabilities = np.stack(np.meshgrid(*[np.arange(3.0)] * 3, indexing="ij"), axis=-1)  # all 27 triples
    np.testing.assert_array_equal(to_labels(probabilities, (3, 3, 3)), probabilities.argmax(-1))
