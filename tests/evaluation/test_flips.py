"""Averages over flips for networks with known results."""

import itertools
import tracemalloc

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.cli.config import job as jobs
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.averaging.flips import check_flips, over_flips
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.layout import Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.prediction import predictor_of

SIZES = (4, 3, 2)
IMAGE = np.random.default_rng(0).integers(0, 64, (*SIZES, 1)).astype(np.float32)
PLACES = np.arange(24, dtype=np.float32).reshape(SIZES)


def oracle(image):
    """Returns the image times the position as class 0 and the position as class 1; both are exact in float32."""
    return np.stack([image[..., 0] * PLACES, PLACES + 0 * image[..., 0]], axis=-1)


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

    result = over_flips(network, flips)(IMAGE)
    np.testing.assert_array_equal(result, by_hand(IMAGE, flips))
    assert result.dtype == np.float32
    assert len(calls) == 2 ** len(flips)


def test_flips_do_not_change_a_symmetric_network():
    symmetric = over_flips(lambda image: np.concatenate([image, image**2], axis=-1), ("x", "y", "z"))
    np.testing.assert_array_equal(symmetric(IMAGE), np.concatenate([IMAGE, IMAGE**2], axis=-1))
    assert over_flips(oracle, ()) is oracle


def test_the_result_of_the_network_is_not_modified():
    result = oracle(IMAGE)
    result.flags.writeable = False  # like the arrays of TensorFlow
    over_flips(lambda image: result, ("x",))(IMAGE)
    np.testing.assert_array_equal(result, oracle(IMAGE))


@pytest.mark.parametrize(("dtype", "sum_dtype"), [("float16", "float32"), ("float64", "float64")])
def test_the_sum_is_float32_or_wider(dtype, sum_dtype):
    assert over_flips(lambda image: oracle(image).astype(dtype), ("x",))(IMAGE).dtype == sum_dtype


def test_memory_is_one_sum_and_one_result():
    shape = (64, 64, 32, 3)
    image = np.zeros((64, 64, 32, 1), np.float32)
    averaged = over_flips(lambda image: np.ones(shape, np.float32), ("x", "y", "z"))
    tracemalloc.start()
    averaged(image)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.1 * 4 * np.prod(shape)


def test_evaluate_and_predict_average_over_flips(monkeypatch, tmp_path):
    monkeypatch.setattr("mtf_imaging.training.prediction.predictors", lambda **options: [oracle])
    job, setup = jobs.Job(task=object(), flips=("x", "z")), JobSetup(resolution="16")
    options = {"layout": setup.parsed_layout, "mesh_impl": "auto", "dtype": job.dtype, "progress": False}
    network = trained_network(job.task, [(16, 16, 16)], tmp_path, "last", job.flips, **options)
    np.testing.assert_array_equal(network(IMAGE), by_hand(IMAGE, ("x", "z")))


def test_a_real_network_under_a_layout():
    task, sizes = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1)), (5, 4, 4)
    program = mi.Program(task.predict, task.inputs(1, sizes, labels=False))
    network = predictor_of(program, task=task, sizes=sizes, layout=Layout.parse("rows:2", "x:rows"))
    image = np.random.default_rng(1).random((*sizes, 1)).astype(np.float32)
    mirrored = network(np.ascontiguousarray(image[::-1]))[::-1]
    np.testing.assert_allclose(over_flips(network, ("x",))(image), (network(image) + mirrored) / 2, rtol=1e-6)


FIX = "Fix: list each of x, y, z at most once, as in ('x', 'y')."


@pytest.mark.parametrize(
    ("flips", "text"),
    [
        (("x", "w"), f"flips = ('x', 'w'): 'w' is not an axis. {FIX}"),
        (("x", "x"), f"flips = ('x', 'x'): an axis is repeated. {FIX}"),
        (True, f"flips = True: True is not an axis. {FIX}"),
    ],
)
def test_invalid_axes_are_refused(flips, text):
    with pytest.raises(ConfigError) as error:
        check_flips(flips)
    assert str(error.value) == text
    assert error.value.settings == ("flips",)
