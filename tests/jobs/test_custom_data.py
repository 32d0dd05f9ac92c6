"""Evaluation and prediction with the run of a custom data set: volumes of one channel, and arrays of any shape."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.cli import main
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.jobs.predicting import predict
from mtf_imaging.kinds.all_kinds import open_subject
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.models.resnet import Classification
from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns, predictor
from tests import tiny_runs
from tests.tiny_runs import ARRAY_SIZES, ARRAYS, array

READS = "Evaluation and prediction read volumes with the axes x, y, z and one channel for it. Fix: predict .npy files"


class Task:
    """A task whose image has the given dimensions."""

    def __init__(self, shape, **others):
        self.shapes = {"image": shape, **others}

    def inputs(self, batch_size, sizes, dtype="float32", labels=True):
        return self.shapes

    def loss(self, image):
        raise NotImplementedError

    def predict(self, image):
        raise NotImplementedError


class TwoInputs(Task):
    def predict(self, image, age):
        raise NotImplementedError


class Parts(Classification):
    """A network with two results."""

    def predict(self, image):
        return {"classes": super().predict(image), "image": image}


def run_of(folder, **facts):
    (folder / FACTS).write_text(json.dumps(facts))
    return folder


def network_of(run, task, images, **settings):
    return open_subject(run, Inference(**settings)).network(NetworkBuilder(task=task), TrainedRuns([run]), images)


def test_images_with_other_axes_are_no_volumes(tmp_path):
    run = run_of(tmp_path, resolution="x:64,y:64")
    subject = open_subject(run, Inference())
    text = f"{run}: the network was trained on a custom data set, and its input has the axes x, y. {READS}"
    for call in (subject.find_labeled, lambda *paths: subject.plan_predictions(*paths, False)):
        with pytest.raises(mi.ConfigError, match=re.escape(text)):
            call(tmp_path / "cases", tmp_path / "output")


@pytest.mark.parametrize(
    "shape",
    ["batch:1,time:8,height:32,width:32,channels:3", "batch:1,x:8,y:32,z:32,channels:2", "batch:1,x:8,y:32,z:32"],
)
def test_other_volumes_are_refused(tmp_path, shape):
    run = run_of(tmp_path, resolution="x:8,y:32,z:32")
    with pytest.raises(mi.ConfigError, match=re.escape(f"its input has the shape 'image' [{shape}]. {READS}")):
        network_of(run, Task(shape), [SimpleNamespace(key="0")])


def test_volumes_of_one_channel_are_accepted(tmp_path, monkeypatch):
    run = run_of(tmp_path, resolution="x:8,y:32,z:32")
    assert open_subject(run, Inference()).kind == "volumes"
    monkeypatch.setattr("mtf_imaging.kinds.volumes.images.trained_network", lambda *_, **__: "built")
    assert network_of(run, Task("batch:1,x:8,y:32,z:32,channels:1"), [SimpleNamespace(key="0")]) == "built"


def test_runs_on_records_are_not_checked(tmp_path, monkeypatch):
    run = run_of(tmp_path, resolution="x:8,y:32,z:32", spacing="")
    monkeypatch.setattr("mtf_imaging.kinds.volumes.images.trained_network", lambda *_, **__: "built")
    assert network_of(run, Task("batch:1,x:8,y:32,z:32,channels:4"), [SimpleNamespace(key="0")]) == "built"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with a trained run, and arrays to predict."""
    folder = shutil.copytree(tiny_runs.arrays(tmp_path_factory), tmp_path_factory.mktemp("arrays"), dirs_exist_ok=True)
    np.save(folder / "other.npy", np.zeros((12, 16, 3)))
    np.save(folder / "text.npy", np.full((16, 12, 3), "a"))
    (folder / "damaged.npy").write_bytes(b"not an array")
    with open(folder / "several.npy", "wb") as file:
        np.savez(file, a=np.zeros(2))
    return folder


def test_arrays_are_predicted(folder, tmp_path):
    options = {"task": ARRAYS, "model_dir": folder / "run", "progress": False}
    (one,) = predict(**options, input=folder / "arrays/image_9.npy", output=tmp_path / "one.npy")
    several = predict(**options, input=folder / "arrays", output=tmp_path / "several")
    assert several == [tmp_path / f"several/image_{number}.npy" for number in (9, 10)]
    network = predictor(task=ARRAYS, sizes=ARRAY_SIZES, model_dir=folder / "run")
    for number, path in ((9, one), (9, several[0]), (10, several[1])):
        np.testing.assert_array_equal(np.load(path), network(array(number)))
    with pytest.raises(mi.DataError, match=r"one\.npy: already exists\. Fix: name another output, or set overwrite\."):
        predict(**options, input=folder / "arrays/image_9.npy", output=one)
    assert predict(**options, input=folder / "arrays/image_10.npy", output=one, overwrite=True) == [one]
    np.testing.assert_array_equal(np.load(one), network(array(10)))


def test_several_results_of_an_array_are_one_file(folder, tmp_path):
    options = {"task": Parts(ARRAYS.network), "model_dir": folder / "run", "progress": False}
    image = folder / "arrays/image_9.npy"
    with pytest.raises(mi.DataError, match=r"a\.npy: the network returned the arrays classes, image, .* a\.npz\."):
        predict(**options, input=image, output=tmp_path / "a.npy")
    assert not any(tmp_path.iterdir())
    (one,) = predict(**options, input=image, output=tmp_path / "a.npz")
    two = predict(**options, input=folder / "arrays", output=tmp_path / "several")
    assert [path.name for path in two] == ["image_9.npz", "image_10.npz"]
    for path in (one, two[0]):
        results = np.load(path)
        assert sorted(results) == ["classes", "image"]
        np.testing.assert_array_equal(results["image"], array(9).astype(np.float32))
    results.close()
    two[0].unlink()
    before = two[1].stat().st_mtime_ns
    assert predict(**options, input=folder / "arrays", output=tmp_path / "several") == two
    assert two[0].exists()
    assert two[1].stat().st_mtime_ns == before  # was kept
    with pytest.raises(mi.DataError, match=r"other settings: task was Parts\(.*, and is .*\. Fix: .* set overwrite"):
        predict(**options | {"task": ARRAYS}, input=folder / "arrays", output=tmp_path / "several")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"input": "other.npy"}, "other.npy: has the shape [12, 16, 3], but the network takes [height: 16, width: 12"),
        ({"input": "text.npy"}, "text.npy: has the dtype <U1, but the network takes numbers. Fix: convert it."),
        ({"input": "damaged.npy"}, "damaged.npy: not a NumPy array ("),
        (
            {"input": "several.npy"},
            "several.npy: holds the arrays a, but the network has the inputs image. Fix: write one input with",
        ),
        ({"input": "missing.npy"}, "missing.npy: No such file or directory. Fix: check the path and the disk."),
        ({"output": "a.csv"}, "a.csv: the prediction for one array needs a name that ends in .npy or .npz. Fix: use"),
        ({"input": "arrays", "output": "a.npy"}, "a.npy: the input {folder}/arrays is a folder, so the output must be"),
        ({"output": "arrays/image_9.npy", "overwrite": True}, "would be overwritten by its prediction. Fix: name"),
        ({"input": "arrays", "output": "arrays"}, "lies in the folder of the cases"),
        (
            {"flips": ("x",)},
            "flips = ('x',) has no effect on arrays: it is a setting of volumes, images with objects, photos",
        ),
        (
            {"task": TwoInputs("batch:1,x:16,y:12", age="batch:1")},
            "image_9.npy: holds one array, but the network has the inputs image, age. Fix: write one input with",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_mistakes_are_reported(folder, tmp_path, change, text):
    given = {"task": ARRAYS, "model_dir": "run", "input": "arrays/image_9.npy", "output": tmp_path / "a.npy"} | change
    given |= {name: folder / given[name] for name in ("model_dir", "input", "output")}
    if change.get("output") == "a.npy":
        given["output"] = tmp_path / "a.npy"
    with pytest.raises(mi.errors.MtfImagingError, match=re.escape(text.format(folder=folder))):
        predict(**given)
    assert not any(tmp_path.iterdir())


def test_the_command_predicts_arrays(folder, tmp_path, capsys):
    (folder / "run/config.gin").write_text(
        "import mtf_imaging.models.resnet\njob.task = @resnet.Classification()\n"
        "resnet.Classification.network = @resnet.ResNet()\nresnet.ResNet.classes = 4\n"
        "resnet.ResNet.blocks = (1, 1)\nresnet.ResNet.base_filters = 4\n"
    )
    paths = f"--input={folder / 'arrays'}", f"--output={tmp_path / 'predictions'}"
    assert main.main(["predict", f"--model_dir={folder / 'run'}", *paths]) == 0
    assert (tmp_path / "predictions/image_9.npy").is_file()
    assert f"Next: open {tmp_path}/predictions in a viewer" in capsys.readouterr().out
