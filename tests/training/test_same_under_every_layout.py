"""A whole training step, with loss, dropout and optimizer, gives the same losses under every layout and on every mesh.

Optimizers amplify rounding errors. 20 steps in float64 therefore agree to 1e-9, and 20 steps of SGD in float32 to 1e-4.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.optimizers import SGD, Adafactor, Adam
from mtf_imaging.training.step import training_step

SIZES = (8, 8, 8)
STEPS = 20
OPTIMIZERS = {
    "sgd": lambda: SGD(0.01, momentum=0.9),
    "adam": lambda: Adam(0.003),
    "adafactor": lambda: Adafactor(0.003, min_dim_size_to_factor=2),
    "adafactor, not factored": lambda: Adafactor(0.003, beta1=0.9, factored=False),
}
TOLERANCES = {tf.float64: 1e-9, tf.float32: 1e-4}
LAYOUTS = {
    "x": ("rows:2", "x:rows"),
    "xy": ("rows:2,cols:2", "x:rows,y:cols"),
    "xyz": ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
    "xy batch": ("rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores"),
    "x batch, uneven": ("rows:5,cores:3", "x:rows,batch:cores"),
    "xyz batch": ("rows:2,cols:2,planes:2,cores:2", "x:rows,y:cols,z:planes,batch:cores"),
}


def build(optimizer, dropout_rate, dtype, mesh_shape="", layout="", mesh_impl="stacked"):
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, dropout_rate=dropout_rate))
    inputs = task.inputs(2, SIZES, dtype)
    step = training_step(task, OPTIMIZERS[optimizer]())
    return mi.Program(step, inputs, mesh_shape=mesh_shape, layout=layout, mesh_impl=mesh_impl)


def losses(program, steps=range(STEPS)):
    rows = []
    for step in steps:
        rng = np.random.default_rng(step)
        image, labels = rng.random((2, *SIZES, 1)), rng.integers(0, 3, (2, *SIZES))
        rows.append([float(value) for value in program(image=image, labels=labels).values()])
    return np.array(rows)


@functools.cache
def whole(optimizer, dropout_rate, dtype):
    return losses(build(optimizer, dropout_rate, dtype))


def check(optimizer, dropout_rate, dtype, layout, mesh_impl):
    got = losses(build(optimizer, dropout_rate, dtype, *LAYOUTS[layout], mesh_impl))
    np.testing.assert_allclose(got, whole(optimizer, dropout_rate, dtype), rtol=TOLERANCES[dtype])


FAST = [
    ("adam", 0.5, tf.float64, "xyz batch", "stacked"),
    ("adam", 0.5, tf.float64, "x", "placement"),
    ("adafactor", 0.5, tf.float64, "x batch, uneven", "stacked"),
]
OPTIMIZERS_AND_DTYPES = [("sgd", tf.float64), ("adam", tf.float64), ("adafactor", tf.float64), ("sgd", tf.float32)]


def all_cases():
    """Yields every optimizer under every layout. Dropout and the mesh implementation alternate."""
    for row, (optimizer, dtype) in enumerate(OPTIMIZERS_AND_DTYPES):
        for column, layout in enumerate(LAYOUTS):
            dropout_rate = 0.5 if optimizer == "adafactor" else (0.0, 0.5)[(row + column // 2) % 2]
            yield optimizer, dropout_rate, dtype, layout, ("stacked", "placement")[(row + column) % 2]
    yield "adafactor, not factored", 0.5, tf.float64, "xyz batch", "stacked"


ALL = list(all_cases())


@pytest.mark.parametrize("column", [0, 1, 2, 3])
def test_every_setting_occurs_on_every_mesh(column):
    settings = {"adafactor, not factored": "adafactor"}
    pairs = {(settings.get(case[column], case[column]), case[4]) for case in ALL}
    assert pairs == {(value, impl) for value, _ in pairs for impl in ("stacked", "placement")}


def identify(value):
    return value.name if isinstance(value, tf.DType) else str(value)


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize(("optimizer", "dropout_rate", "dtype", "layout", "mesh_impl"), FAST, ids=identify)
def test_same_losses(optimizer, dropout_rate, dtype, layout, mesh_impl):
    check(optimizer, dropout_rate, dtype, layout, mesh_impl)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "dropout_rate", "dtype", "layout", "mesh_impl"),
    [case for case in ALL if case not in FAST],
    ids=identify,
)
def test_same_losses_for_all(optimizer, dropout_rate, dtype, layout, mesh_impl):
    check(optimizer, dropout_rate, dtype, layout, mesh_impl)


@pytest.mark.slow
def test_the_same_layout_repeats_bit_for_bit():
    np.testing.assert_array_equal(losses(build("adam", 0.5, tf.float64)), whole("adam", 0.5, tf.float64))


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("xy", "xyz batch"), ("xyz batch", "x")])
def test_a_run_resumes_under_another_layout(first, second, tmp_path):
    before = build("adam", 0.5, tf.float64, *LAYOUTS[first])
    losses(before, range(10))
    Checkpoints(tmp_path, before).save()
    after = build("adam", 0.5, tf.float64, *LAYOUTS[second], "placement")
    assert Checkpoints(tmp_path, after).restore() == 10
    got = losses(after, range(10, STEPS))
    np.testing.assert_allclose(got, whole("adam", 0.5, tf.float64)[10:], rtol=1e-9)
