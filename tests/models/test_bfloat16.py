"""bfloat16 activations: variables, losses and statistics stay float32, and checkpoints equal those of float32."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.gradients import gradients_of
from mtf_imaging.training.optimizers import SGD, Adafactor, Adam
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.step import training_step
from tests.models import reference_unet3d

SIZES = (8, 8, 8)
MESHES = [("", "", "stacked"), ("rows:2,cols:2", "x:rows,y:cols", "stacked"), ("rows:2", "x:rows", "placement")]
HALF_ULP = 2**-8  # largest relative error of rounding to bfloat16


def make_task():
    return LiverTumorSegmentation(UNet3D(base_filters=4, depth=2, convs=1, dropout_rate=0.0))


def batch(step=0):
    rng = np.random.default_rng(step)
    labels = np.zeros((2, *SIZES), np.int32)
    labels[:, 2:7, 2:7, 2:7], labels[:, 3:5, 3:5, 3:5] = 1, 2
    return {"image": (0.3 * labels + 0.2 * rng.random(labels.shape)).astype(np.float32)[..., None], "labels": labels}


def training(optimizer, dtype, *mesh):
    return mi.Program(training_step(make_task(), optimizer), make_task().inputs(2, SIZES, dtype), *mesh)


@functools.cache
def gradients(dtype, *mesh):
    def fn(**inputs):
        loss, measures = make_task().loss(**inputs)
        variables, values = gradients_of(loss)
        return {"loss": loss, **measures, **{v.name: g for v, g in zip(variables, values, strict=True)}}

    return mi.Program(fn, make_task().inputs(2, SIZES, dtype), *mesh)(**batch())


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize("optimizer", [Adam(), Adafactor(beta1=0.5, min_dim_size_to_factor=2)])
def test_variables_losses_and_gradients_are_float32(optimizer):
    program = training(optimizer, "bfloat16")
    assert {variable.dtype for variable in program.variables.values()} == {tf.float32}
    assert {value.dtype for value in program(**batch()).values()} == {tf.float32}
    assert {value.dtype for value in gradients("bfloat16").values()} == {tf.float32}


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_losses_and_gradients_are_close_to_float32(mesh):
    got, want = gradients("bfloat16", *mesh), gradients("float32")
    for name in ("loss", "liver", "lesion"):
        np.testing.assert_allclose(got[name], want[name], rtol=0.02, err_msg=name)
    # Rounding may change the direction of a gradient slightly, but must not scale all gradients of a layer.
    for name in want.keys() - {"loss", "liver", "lesion"}:
        g, w = got[name].numpy().ravel(), want[name].numpy().ravel()
        assert g @ w > 0.9 * np.linalg.norm(g) * np.linalg.norm(w), name
        np.testing.assert_allclose(np.linalg.norm(g), np.linalg.norm(w), rtol=0.1, err_msg=name)


@pytest.mark.slow
def test_the_loss_curve_equals_that_of_float32():
    """Compares means of 20 steps. benchmarks/bfloat16_curve.py compares the curves of the demo."""

    def curve(dtype):
        program = training(Adafactor(0.003), dtype)
        losses = [float(program(**batch(step))["loss"]) for step in range(80)]
        return np.mean(np.reshape(losses, [-1, 20]), axis=1)

    want = curve("float32")
    assert want[-1] < 0.8 * want[0]
    np.testing.assert_allclose(curve("bfloat16"), want, rtol=0.005)


def test_updates_below_the_last_digit_of_bfloat16_add_up():
    rate, steps = 1e-6, 4
    program = training(SGD(rate, momentum=0.0), "bfloat16")
    name = "unet3d/classes/filter"
    weights = program.variables[name].numpy()
    moved = -steps * rate * gradients("bfloat16")[name].numpy()
    assert 0 < np.abs(moved).max() < HALF_ULP / 2 * np.median(np.abs(weights))
    for _ in range(steps):
        program(**batch())
    rounding = steps * 2**-24 * np.abs(weights).max()
    assert rounding < 0.2 * np.abs(moved).max()
    np.testing.assert_allclose(program.variables[name] - weights, moved, rtol=0.02, atol=rounding)


def test_the_loss_of_given_logits_equals_that_of_float64():
    logits = tf.cast(3 * np.random.default_rng(0).standard_normal((2, *SIZES, 3)), tf.bfloat16)
    labels = batch()["labels"]

    def network(image, is_training):
        return mi.mtf.rename_dimension(image, "channels", "classes")

    def fn(image, labels):
        loss, measures = LiverTumorSegmentation(network).loss(image, labels)
        return loss, measures["liver"], measures["lesion"]

    volume = "batch:2,x:8,y:8,z:8"
    got = mi.Program(fn, {"image": (f"{volume},channels:3", "bfloat16"), "labels": (volume, "int32")})
    want = reference_unet3d.loss(tf.cast(logits, tf.float64), labels)
    np.testing.assert_allclose(got(image=logits, labels=labels), want, rtol=1e-6)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_norm_statistics_are_not_rounded(mesh, is_training):
    x = tf.cast(16 + np.random.default_rng(0).standard_normal((2, *SIZES, 3)), tf.bfloat16)
    exact = tf.cast(x, tf.float64).numpy()
    mean, variance = exact.mean((0, 1, 2, 3)), exact.var((0, 1, 2, 3))
    program = mi.Program(
        lambda x: mi.ops.batch_norm(x, is_training, momentum=0.0, name="norm"),
        {"x": ("batch:2,x:8,y:8,z:8,channels:3", "bfloat16")},
        *mesh,
    )
    if not is_training:
        program.variables["norm/moving_mean"].assign(mean)
        program.variables["norm/moving_variance"].assign(variance)
    got = program(x=x)
    assert got.dtype == tf.bfloat16
    # Every value has the precision of bfloat16, although x itself has steps of 1/16.
    np.testing.assert_allclose(
        tf.cast(got, tf.float64), (exact - mean) / np.sqrt(variance + 1e-6), rtol=1.01 * HALF_ULP, atol=1e-5
    )
    np.testing.assert_allclose(program.variables["norm/moving_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(program.variables["norm/moving_variance"], variance, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_training_resumes_from_a_checkpoint_of_another_dtype(first, second, tmp_path):
    before, after = training(Adam(), first), training(Adam(), second)
    for step in range(2):
        before(**batch(step))
    Checkpoints(tmp_path, before).save()
    assert Checkpoints(tmp_path, after).restore() == 2
    for name, variable in before.variables.items():
        np.testing.assert_array_equal(after.variables[name], variable, err_msg=name)
    losses = [float(program(**batch(2))["loss"]) for program in (before, after)]
    np.testing.assert_allclose(*losses, rtol=0.01)

    image = batch()["image"][0]
    wide, narrow = (
        predictor(task=make_task(), sizes=SIZES, model_dir=tmp_path, dtype=dtype)(image)
        for dtype in ("float32", "bfloat16")
    )
    assert wide.dtype == narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, atol=0.02)
    np.testing.assert_allclose(narrow.sum(-1), 1, rtol=1e-6)
