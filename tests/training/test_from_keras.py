"""The scripts of docs/guides/from_keras.md and trained_networks.md run without changes, and both networks are equal."""

import re
import runpy
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests import pages

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
FROM_KERAS, TRAINED = GUIDES / "from_keras.md", GUIDES / "trained_networks.md"
LAYOUTS = [("", ""), ("rows:4", "x:rows"), ("rows:3,model:2", "y:rows,channels:model")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes the files and the images of the pages to a folder, which is the working directory of these tests."""
    folder = tmp_path_factory.mktemp("from_keras")
    own = {name.removesuffix(".py") for page in (FROM_KERAS, TRAINED) for name in pages.files(page)}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        for page in (FROM_KERAS, TRAINED):
            pages.write_files(page, folder)
        runpy.run_path("make_images.py")
        yield folder
        for name in own:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def networks(folder):
    """Returns the Keras model with random weights, the task, and a batch."""
    keras.utils.set_random_seed(0)
    model = runpy.run_path("keras_unet.py")["build_model"]()
    rng = np.random.default_rng(0)
    for weight in model.weights:
        value = rng.normal(scale=0.3, size=weight.shape)
        weight.assign(1 + np.abs(value) if "variance" in weight.name or "gamma" in weight.name else value)
    batch = {name: np.load(f"images/{name}.npy")[:2] for name in ("image", "labels")}
    return model, runpy.run_path("unet.py")["UNet"](), batch


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_weights_give_equal_losses_and_predictions(networks, layout):
    model, task, batch = networks
    inputs = task.inputs(2, (16, 16), dtype="float32", labels=True)

    def both(image, labels):
        loss, measures = task.loss(image, labels)
        return {"loss": loss, **measures, "probabilities": task.predict(image)}

    program = mi.Program(both, inputs, *layout)
    before = model.get_weights()
    mi.keras.import_weights(model, program, verify=False)  # it also has labels and a loss
    found = program(image=batch["image"], labels=batch["labels"])
    image = batch["image"].astype(np.float32)
    probabilities = keras.ops.softmax(model(image))
    logits = model(image, training=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(batch["labels"], logits)
    np.testing.assert_allclose(found["probabilities"], probabilities, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(found["accuracy"], np.mean(np.argmax(logits, -1) == batch["labels"]))
    name = "bottom_norm/moving_mean"  # both have updated the moving statistics by one step
    np.testing.assert_allclose(program.variables[name], model.get_layer("bottom_norm").moving_mean, atol=1e-6)
    model.set_weights(before)


def test_the_names_in_the_tables_exist():
    for page in (FROM_KERAS, TRAINED):
        for code in pages.inline_code(page.read_text()):
            for name in re.findall(r"\b(?:mi|keras)(?:\.\w+)+", code):
                first, *parts = name.split(".")
                value = {"mi": mi, "keras": keras}[first]
                for part in parts:
                    value = getattr(value, part)


def test_the_weights_are_imported_as_on_the_page(folder):
    runpy.run_path("same_weights.py")  # it compares the predictions


@pytest.fixture(scope="module")
def run(folder):
    runpy.run_path("train.py")


@pytest.mark.slow
def test_the_port_trains_and_predicts(run, capsys):
    losses = np.loadtxt("run/losses.csv", delimiter=",", skiprows=1, usecols=1)
    assert len(losses) == 40
    assert losses[-1] < losses[0]
    assert Path("run/best").exists()
    runpy.run_path("use.py")
    assert float(capsys.readouterr().out.removeprefix("accuracy: ")) > 0.8


@pytest.mark.slow
def test_the_keras_script_trains_and_predicts(folder, capsys):
    runpy.run_path("keras_use.py")
    assert float(capsys.readouterr().out.removeprefix("accuracy: ")) > 0.6


@pytest.mark.slow
def test_activations_of_the_page(run, capsys):
    values = runpy.run_path("activations.py")
    names = capsys.readouterr().out.splitlines()
    assert {"down_conv", "down_conv/down_conv", "down_norm", "classes"} <= {*names}
    assert values["features"]["bottom_conv"].shape == (8, 8, 8)
    np.testing.assert_allclose(
        tf.nn.softmax(values["logits"]), values["network"](values["image"]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow
def test_restored_weights_of_the_page(run):
    program = runpy.run_path("restore.py")["program"]
    assert int(program.step) > 0
    assert int(runpy.run_path("restore_with_tensorflow.py")["program"].step) == 40


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [("export.py", "load_saved_model.py"), ("export_onnx.py", "load_onnx.py")])
def test_exported_models_of_the_page(run, scripts):
    if "onnx" in scripts[0]:
        pytest.importorskip("tf2onnx")
    runpy.run_path(scripts[0])
    found = runpy.run_path(scripts[1])["probabilities"]
    image = np.load("held_out/image.npy")[0]
    task = runpy.run_path("unet.py")["UNet"]()
    network = mi.training.prediction.predictor(task=task, sizes=(16, 16), model_dir="run")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, network(image), rtol=0, atol=1e-5)
