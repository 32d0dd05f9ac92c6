"""`predict`, `evaluate` and held-out scores with a window that slides over volumes."""

import json
import re

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.layout import Layout
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.jobs.data.training_data import as_training_data
from mtf_imaging.jobs.held_out.cases import make_evaluator, open_held_out
from mtf_imaging.jobs.held_out.loss import Trained
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.volumes.trained import window_of_run
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.observers.evaluator import Monitoring
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import NetworkBuilder
from mtf_imaging.training.step import TrainingStep

TASK = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm="group", norm_groups=1))
PATCH = "x:8,y:8,z:4"
SPLIT = Layout.parse("rows:2,cores:2", "x:rows,batch:cores")


@pytest.mark.parametrize(
    ("patch", "settings", "window"),
    [
        (None, {}, None),
        (None, {"sliding_window": "none"}, None),
        (None, {"sliding_window": 48}, ((48, 48, 48), 0.5)),
        (None, {"sliding_window": "48", "window_step": 1}, ((48, 48, 48), 1)),
        (None, {"sliding_window": [8, 12, 16]}, ((8, 12, 16), 0.5)),
        (PATCH, {}, ((8, 8, 4), 0.5)),
        (PATCH, {"window_step": 0.25}, ((8, 8, 4), 0.25)),
        (PATCH, {"sliding_window": "none"}, None),
        (PATCH, {"sliding_window": "z:12,x:4,y:8"}, ((4, 8, 12), 0.5)),
    ],
)
def test_the_window_of_a_run(patch, settings, window):
    expected = None if window is None else SlidingWindow(*window)
    assert window_of_run(patch, Inference(**settings)) == expected


@pytest.mark.parametrize("given", ["48,48", "x:8,y:8", "abc", "0", 0, -3, (8, 8), (8, 8, 0), (8, 8, 2.5), "8|16", True])
def test_other_sizes_are_refused(given):
    text = f"sliding_window = {given!r}: is not the size of a window. Fix: give the voxels along x, y and z, for inst"
    with pytest.raises(mi.ConfigError, match=re.escape(text)) as error:
        window_of_run(None, Inference(sliding_window=given))
    assert error.value.settings == ("sliding_window",)


@pytest.mark.parametrize("step", [0, -0.5, 1.01, float("nan"), True, "0.5"])
def test_other_steps_are_refused(step):
    text = f"window_step must be a number above 0 and at most 1, not {step!r}."
    with pytest.raises(mi.ConfigError, match=re.escape(text)) as error:
        Inference(window_step=step)
    assert error.value.settings == ("window_step",)


@pytest.mark.parametrize("settings", [{}, {"sliding_window": "none"}])
def test_a_step_without_a_window_is_refused(settings):
    with pytest.raises(mi.ConfigError, match=r"window_step = 0.25 has no effect: the network computes a whole volume"):
        window_of_run(None, Inference(window_step=0.25, **settings))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two cases, their records of 16 voxels, and a run on whole volumes."""
    folder = tmp_path_factory.mktemp("sliding")
    write_phantom(folder / "cases", 2, seed=1)
    options = {"resolution": 16, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", **options)
    options = {"optimizer": Adam(0.05), "batch_size": 2, "num_steps": 2, "class_frequencies": None}
    options |= {"dtype": "float64", "progress": False}
    mi.jobs.train(task=TASK, data=folder / "records", model_dir=folder / "run", **options)
    return folder


def predict(folder, output, run="run", **options):
    given = {"task": TASK, "model_dir": folder / run, "dtype": "float64", "progress": False, **options}
    return mi.jobs.predict(input=folder / "cases", output=output, **given)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".gz"}


@pytest.mark.slow
def test_a_run_on_patches_predicts_with_their_size(folder, tmp_path):
    """The window of whole volumes is `none`, and that of patches is the patch; both can be changed."""
    stored = json.loads((folder / "run" / FACTS).read_text())
    results = {}
    for name, patch, options in (
        ("whole", None, {}),
        ("none", "x:8,y:8,z:8", {"sliding_window": "none"}),
        ("patch", "x:8,y:8,z:8", {}),
        ("window", None, {"sliding_window": 8}),
        ("layout", None, {"sliding_window": (8, 8, 8), "layout": SPLIT}),
        ("step", "x:8,y:8,z:8", {"window_step": 1.0}),
        ("of the grid", None, {"sliding_window": 16}),
    ):
        facts = {key: value for key, value in stored.items() if key != "patch"}
        (folder / "run" / FACTS).write_text(json.dumps(facts | ({"patch": patch} if patch else {})))
        predict(folder, tmp_path / name, **options)
        results[name] = content(tmp_path / name)
    (folder / "run" / FACTS).write_text(json.dumps(stored))
    assert results["whole"] == results["none"] == results["of the grid"]
    assert results["patch"] == results["window"] == results["layout"]
    assert len({json.dumps([*map(repr, results[name].values())]) for name in ("whole", "patch", "step")}) == 3
    given = {"task": TASK, "model_dir": folder / "run", "dtype": "float64", "progress": False, "sliding_window": 8}
    mi.jobs.evaluate(input_dir=folder / "cases", output_dir=tmp_path / "scores", **given)
    assert content(tmp_path / "scores/predictions") == results["window"]


@pytest.mark.slow
def test_the_record_of_a_prediction_names_the_window(folder, tmp_path):
    predict(folder, tmp_path / "whole")
    predict(folder, tmp_path / "window", sliding_window="x:8,y:8,z:8", window_step=0.75)
    records = [(tmp_path / name / "predictions.jsonl").read_text() for name in ("whole", "window")]
    made_by = [json.loads(record.splitlines()[0])["made_by"] for record in records]
    windows = [(one["sliding_window"], one["window_step"]) for one in made_by]
    assert windows == [("None", "0.5"), ("'x:8,y:8,z:8'", "0.75")]
    with pytest.raises(mi.DataError, match="sliding_window"):
        predict(folder, tmp_path / "whole", sliding_window=8)


@pytest.mark.slow
def test_a_window_larger_than_the_volume(folder, tmp_path):
    text = "the sliding window of 16 x 16 x 20 voxels does not fit into the grid of 16 x 16 x 16 voxels"
    with pytest.raises(mi.ConfigError, match=text):
        predict(folder, tmp_path / "out", sliding_window="x:16,y:16,z:20")


@pytest.mark.slow
def test_held_out_cases_are_scored_with_windows(folder, tmp_path):
    """The evaluator predicts whole volumes with the network of a training on patches of 8 voxels."""
    data = as_training_data(mi.jobs.TrainingData(folder / "records", eval_dir=folder / "records"))
    whole = TrainingStep(TASK, Adam(0.01), (16, 16, 16), 2, 1, "float64")
    held_out = open_held_out(data, whole, "liver", progress=False)
    step = TrainingStep(TASK, Adam(0.01), (8, 8, 8), 2, 1, "float64")
    program = step.build(SPLIT).program
    networks = []
    held_out = held_out._replace(evaluate=lambda network: networks.append(network) or ({"liver": 0.5}, {}))
    evaluator = make_evaluator(
        held_out._replace(batches=None, region_batches=None, patch=(8, 8, 8)),
        Trained(step, program, SPLIT, progress=False),
        Checkpoints(tmp_path, program),
        tmp_path,
        Monitoring("liver", 1, 1),
        lambda: None,
    )
    evaluator.begin(1)
    evaluator.close()
    image = np.random.default_rng(0).random((16, 16, 16, 1))
    own = NetworkBuilder(task=TASK, dtype="float64", window=SlidingWindow((8, 8, 8)))
    expected = own.network_of(program, ())(image)
    np.testing.assert_allclose(networks[0](image), expected, rtol=1e-10)
    assert expected.shape == (16, 16, 16, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"sliding_window": 20}, "the sliding window of 20 x 20 x 20 voxels does not fit into the grid of 16 x 16 x"),
        ({"window_step": 2.0}, "window_step must be a number above 0 and at most 1, not 2.0."),
    ],
)
def test_cross_validate_checks_the_window_before_it_trains(folder, tmp_path, change, text):
    given = {"task": TASK, "input_dir": folder / "cases", "output_dir": tmp_path / "cv", "progress": False, **change}
    data = mi.jobs.TrainingData(folder / "records", num_folds=2)
    with pytest.raises(mi.ConfigError, match=text):
        mi.jobs.cross_validate(data=data, optimizer=Adam(0.01), num_steps=1, **given)
    assert not any(tmp_path.rglob("fold_0*"))


@pytest.mark.slow
def test_cross_validate_scores_with_the_window(folder, tmp_path):
    """The folds of a cross-validation have one window, which the same call must name again."""
    given = {"task": TASK, "input_dir": folder / "cases", "output_dir": tmp_path / "cv", "progress": False}
    given |= {"data": mi.jobs.TrainingData(folder / "records", num_folds=2), "optimizer": Adam(0.01), "num_steps": 1}
    mi.jobs.cross_validate(**given, sliding_window=8, batch_size=1, dtype="float64", folds=[0], workers=1)
    with pytest.raises(mi.ConfigError, match="sliding_window"):
        mi.jobs.cross_validate(**given, batch_size=1, dtype="float64", workers=1)
    (path,) = (tmp_path / "cv/fold_0/evaluation/predictions").glob("*.nii.gz")
    run = {"model_dir": tmp_path / "cv/fold_0", "task": TASK, "dtype": "float64", "progress": False}
    volume = folder / "cases" / path.name.replace("segmentation", "volume")
    mi.jobs.predict(input=volume, output=tmp_path / "again.nii.gz", sliding_window="8", **run)
    assert (tmp_path / "again.nii.gz").read_bytes() == path.read_bytes()
