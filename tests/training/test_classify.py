"""The job gin/classify_4way learns, and gives the same results when the height is split four ways."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet import Classification, GeneratedImages, ResNet
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.step import training_step
from tests.commands import run
from tests.training.test_shipped_jobs import dry_run

TASK = Classification(ResNet(classes=4, blocks=(1, 1, 1), base_filters=8))


def train(model_dir, *words):
    """Trains as a new process would, with a clean gin configuration; returns the table of the steps."""
    assert run("train", "--gin_file=classify_4way", "--data_dir=none", f"--model_dir={model_dir}", *words) == 0
    return np.genfromtxt(Path(model_dir) / "losses.csv", delimiter=",", names=True, usecols=(0, 1, 2))


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    folder = tmp_path_factory.mktemp("split")
    return folder, train(folder, "--num_steps=60")


@pytest.mark.slow
def test_it_learns(split):
    _, table = split
    assert np.mean(table["accuracy"][:10]) < 0.5
    assert np.mean(table["accuracy"][-10:]) > 0.75
    assert np.mean(table["loss"][-10:]) < 0.5 * np.mean(table["loss"][:10])


@pytest.mark.slow
def test_the_trained_weights_predict_in_python(split):
    predict = predictor(task=TASK, sizes=(64, 64), model_dir=split[0], mesh_shape="rows:2", layout="width:rows")
    unseen = next(GeneratedImages().batches(None, batch_size=40, sizes=(64, 64), seed=9, start_step=0))
    right = [np.argmax(predict(image)) == label for image, label in zip(unseen["image"], unseen["labels"].numpy())]
    assert np.mean(right) > 0.6


def build(fn, dtype, **setup):
    return mi.Program(fn, TASK.inputs(16, (64, 64), dtype), **setup)


def batches(dtype):
    for batch in GeneratedImages().batches(None, batch_size=16, sizes=(64, 64), seed=0, start_step=0):
        yield {"image": tf.cast(batch["image"], dtype), "labels": batch["labels"]}


@pytest.mark.slow
def test_a_layout_changes_no_loss(split):
    loss = build(lambda **inputs: TASK.loss(**inputs)[0], tf.float32)(**next(batches(tf.float32)))
    np.testing.assert_allclose(split[1]["loss"][0], loss, rtol=1e-5)
    step = training_step(Classification(ResNet(classes=4, blocks=(1, 1), base_filters=4)), SGD(0.05))
    programs = [build(step, tf.float64), build(step, tf.float64, mesh_shape="rows:4", layout="height:rows")]
    for _, batch in zip(range(5), batches(tf.float64)):
        want, got = ({name: float(value) for name, value in program(**batch).items()} for program in programs)
        assert got == pytest.approx(want, rel=1e-9)


@pytest.mark.slow
def test_the_numbers_of_the_example_give_the_same_layout(capsys):
    numbers = ["--input_partition_dims=[[1,4,1,1],None]", "--num_cores_per_replica=4"]
    assert dry_run("--gin_file=classify_4way", "--gin_file=single", *numbers) == 0
    output = capsys.readouterr().out
    assert re.search(r"^image +batch:16 height:64 width:64 channels:3 +16 x 16 x 64 x 3$", output, re.MULTILINE)
