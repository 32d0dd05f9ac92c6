"""Averages over flips for networks with known results."""

import itertools
import tracemalloc

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.averages import flipped
from mtf_imaging.inference.network import of_function
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.settings.values import check_flips
from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

SIZES = (4, 3, 2)
IMAGE = np.random.default_rng(0).integers(0, 64, (*SIZES, 1)).astype(np.float32)
PLACES = np.arange(24, dtype=np.float32).reshape(SIZES)


def oracle(image):
    """Returns the image times the position as class 0 and the position as class 1; both are exact in float32."""
    return np.stack([image[..., 0] * PLACES, PLACES + 0 * image[..., 0]], axis=-1)


def averaged(function, flips):
    """Returns the mean of a function of two classes over flips."""
    return flipped(of_function(function, 1, 2), ["xyz".index(axis) for axis in flips])


def by_hand(image, flips):
    """Computes the mean at every voxel by index: in a flipped image, a voxel has the mirrored position."""
    expected = np.zeros((*SIZES, 2))
    mirrors = [(False, True) if name in flips else (False,) for name in "xyz"]
    subsets = list(itertools.product(*mirrors))
    for index in np.ndindex(SIZES):
        for mirrored in subsets:
            place = tuple(n - 1 - i if m else i for i, n, m in zip(index, SIZES, mirrored, strict=True))
            expected[index] += image[(*index, 0)] * PLACES[place], PLACES[place]
    return expected / len(subsets)


@pytest.mark.parametrize("flips", [("x",), ("z", "y"), ("x", "y", "z"), ("y",)])
def test_the_mean_is_exact(flips):
    calls = []

    def network(image):
        calls.append(image)
        return oracle(image)

    result = averaged(network, flips)(IMAGE)
    np.testing.assert_array_equal(result, by_hand(IMAGE, flips))
    assert result.dtype == np.float32
    assert len(calls) == 2 ** len(flips)


def test_flips_do_not_change_a_symmetric_network():
    symmetric = averaged(lambda image: np.concatenate([image, image**2], axis=-1), ("x", "y", "z"))
    np.testing.assert_array_equal(symmetric(IMAGE), np.concatenate([IMAGE, IMAGE**2], axis=-1))
    network = of_function(oracle, 1, 2)
    assert flipped(network, ()) is network


def test_the_result_of_the_network_is_not_modified():
    result = oracle(IMAGE)
    result.flags.writeable = False  # like the arrays of TensorFlow
    averaged(lambda image: result, ("x",))(IMAGE)
    np.testing.assert_array_equal(result, oracle(IMAGE))


@pytest.mark.parametrize(("dtype", "sum_dtype"), [("float16", "float32"), ("float64", "float64")])
def test_the_sum_is_float32_or_wider(dtype, sum_dtype):
    assert averaged(lambda image: oracle(image).astype(dtype), ("x",))(IMAGE).dtype == sum_dtype


def test_memory_is_one_sum_and_one_result():
    shape = (64, 64, 32, 3)
    image = np.zeros((64, 64, 32, 1), np.float32)
    network = averaged(lambda image: np.ones(shape, np.float32), ("x", "y", "z"))
    tracemalloc.start()
    network(image)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.1 * 4 * np.prod(shape)


def test_evaluate_and_predict_average_over_flips(monkeypatch, tmp_path):
    own = of_function(oracle, 1, 2)
    monkeypatch.setattr(TrainedRuns, "networks", lambda _, settings, *sizes: ([settings.change(own)], None))
    network = trained_network(NetworkBuilder(task=object()), TrainedRuns([tmp_path]), [(16, 16, 16)], (0, 2))
    np.testing.assert_array_equal(network(IMAGE), by_hand(IMAGE, ("x", "z")))


def test_a_real_network_under_a_layout():
    task, sizes = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1)), (5, 4, 4)
    program = mi.Program(task.predict, task.inputs(1, sizes, labels=False))
    network = NetworkBuilder(task=task, layout=Layout.parse("rows:2", "x:rows")).network_of(program, sizes)
    image = np.random.default_rng(1).random((*sizes, 1)).astype(np.float32)
    mirrored = network(np.ascontiguousarray(image[::-1]))[::-1]
    np.testing.assert_allclose(flipped(network, (0,))(image), (network(image) + mirrored) / 2, rtol=1e-6)


FIX = "Fix: list each of x, y, z at most once."


@pytest.mark.parametrize(
    ("flips", "text"),
    [
        (("x", "w"), f"flips = ('x', 'w'): not axes of the images. {FIX}"),
        (["x", "x"], f"flips = ('x', 'x'): not axes of the images. {FIX}"),
    ],
)
def test_invalid_axes_are_refused(flips, text):
    with pytest.raises(ConfigError) as error:
        check_flips(flips)
    assert str(error.value) == text
    assert error.value.settings == ("flips",)
