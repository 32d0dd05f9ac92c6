"""Training on patches: the same under every layout, resumed exactly, and scored with a sliding window."""

import json

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.jobs.data.training_data import with_patches
from mtf_imaging.jobs.held_out.cases import open_held_out
from mtf_imaging.jobs.steps.building import training_step
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.settings.training import TrainSettings
from mtf_imaging.training.optimizers import Adam
from tests.jobs.test_buckets import resize
from tests.jobs.together import weights
from tests.records import contents
from tests.scores import read_losses

PATCH = (8, 4, 8)
# Group norm: the result does not depend on the number of windows or patches in a batch.
TASK = LiverTumorSegmentation(UNet3D(base_filters=2, depth=1, convs=1, norm="group", norm_groups=1, dropout_rate=0.3))
UNEVEN = mi.Layout.parse("rows:3,cols:2", "x:rows,z:cols")
BATCH = mi.Layout.parse("rows:2,cores:2", "y:rows,batch:cores")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patches")
    write_phantom(folder / "cases", 4, seed=1)
    options = {"workers": 1, "progress": False}
    convert, cases = mi.jobs.convert, {"input_dir": folder / "cases"}
    convert(**cases, output_dir=folder / "records", resolution="x:12,y:10,z:12", **options)
    resize(folder / "cases")
    grids = {"spacing": (40.0, 40.0, 40.0), "grids": 2, "multiple": 4}
    convert(**cases, output_dir=folder / "several_grids", **grids, **options)
    mi.jobs.train(**settings(folder), model_dir=folder / "run")
    return folder


def settings(folder, records="records", **changes):
    data = mi.jobs.TrainingData(folder / records, eval_dir=folder / records)
    given = {"task": TASK, "optimizer": Adam(0.01), "batch_size": 2, "dtype": "float64", "checkpoint_every": 1}
    given |= {"patch": PATCH, "centered_patches": 0.5, "class_frequencies": None, "monitor": "liver"}
    return given | {"data": data, "num_steps": 2, "progress": False} | changes


def scores(run):
    return np.loadtxt(run / "eval/scores.csv", delimiter=",", skiprows=1, ndmin=2)


def assert_same_run(run, expected):
    np.testing.assert_allclose(read_losses(run), read_losses(expected), rtol=1e-9)
    np.testing.assert_allclose(scores(run), scores(expected), rtol=1e-9)
    for name, value in weights(expected).items():
        np.testing.assert_allclose(weights(run)[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def first_loss(folder, model_dir, **changes):
    """Returns the loss of the first step of a run without held-out cases."""
    data = mi.jobs.TrainingData(folder / "records")
    own = settings(folder, data=data, num_steps=1, monitor=None, **changes)
    mi.jobs.train(**own, model_dir=model_dir)
    return read_losses(model_dir)[0]


def test_micro_batches_draw_the_same_patches(folder, tmp_path):
    loss = first_loss(folder, tmp_path, micro_batches=2)
    np.testing.assert_allclose(loss, read_losses(folder / "run")[0], rtol=1e-9)


def test_a_resumed_run_under_other_layouts_equals_an_uninterrupted_one(folder):
    mi.jobs.train(**settings(folder, num_steps=1), model_dir=folder / "resumed", layout=BATCH)
    mi.jobs.train(**settings(folder), model_dir=folder / "resumed", layout=UNEVEN)
    assert_same_run(folder / "resumed", folder / "run")


def test_the_run_stores_the_patch(folder):
    facts = json.loads((folder / "run/run.json").read_text())
    assert facts["patch"] == "x:8,y:4,z:8"
    assert facts["resolution"] == "x:12,y:10,z:12"


def test_patches_change_the_result(folder, tmp_path):
    assert not np.allclose(first_loss(folder, tmp_path, centered_patches=0.0), read_losses(folder / "run")[0])


@pytest.mark.slow
def test_one_program_serves_all_grids(folder):
    grids = open_records(folder / "several_grids").sampling.grids
    assert len(grids) == 2
    options = settings(folder, "several_grids", num_steps=3)
    mi.jobs.train(**options, model_dir=folder / "grids")
    mi.jobs.train(**options, model_dir=folder / "grids_split", layout=BATCH)
    assert_same_run(folder / "grids_split", folder / "grids")
    assert len(scores(folder / "grids")) == 3
    assert json.loads((folder / "grids/run.json").read_text())["resolution"].count("|") == 1


def test_evaluate_and_predict_slide_the_patch(folder):
    job = {"task": TASK, "dtype": "float64", "model_dir": folder / "run", "progress": False}
    mi.jobs.evaluate(**job, input_dir=folder / "cases", output_dir=folder / "evaluation", num_pictures=0)
    written = contents(folder / "evaluation/predictions")
    job |= {"input": folder / "cases"}
    mi.jobs.predict(**job, output=folder / "named", sliding_window=PATCH, layout=BATCH)
    mi.jobs.predict(**job, output=folder / "whole", sliding_window="none")
    assert len(written) == 4
    for name, content in written.items():
        assert (folder / "named" / name).read_bytes() == content
    assert any((folder / "whole" / name).read_bytes() != content for name, content in written.items())


def test_the_held_out_loss_is_that_of_one_patch_of_each_case(folder):
    own = TrainSettings(**settings(folder), model_dir=folder / "run")
    data = with_patches(own.data, own)
    held_out = open_held_out(data, training_step(own, TASK, PATCH), "liver", whole=data.sizes())
    batches = [*held_out.batches()]
    assert [batch["image"].shape for batch in batches] == [(2, *PATCH, 1)] * 2
    assert sorted(key for batch in batches for key in batch["cases"]) == sorted(open_records(folder / "records").cases)
    for batch, other in zip(batches, held_out.batches(), strict=True):
        np.testing.assert_array_equal(batch["image"], other["image"])


@pytest.mark.slow
def test_cross_validation_of_patches(folder):
    own = {name: value for name, value in settings(folder).items() if name != "data"}
    data = mi.jobs.TrainingData(folder / "records", num_folds=2)
    job = {"input_dir": folder / "cases", "output_dir": folder / "folds", "folds": (0,)}
    mi.jobs.cross_validate(**own, **job, data=data)
    (run,) = [path.parent for path in (folder / "folds").rglob("run.json")]
    assert json.loads((run / "run.json").read_text())["patch"] == "x:8,y:4,z:8"
    with pytest.raises(ConfigError, match="patch"):
        mi.jobs.cross_validate(**own | {"patch": (8, 8, 8)}, **job, data=data)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"patch": (8, 16, 8)}, ["x:8,y:16,z:8", "x:12,y:10,z:12", "x:8,y:10,z:8"]),
        ({"patch": (8, 8)}, ["(8, 8)", "x, y, z"]),
        ({"patch": (8, 8, 0)}, ["(8, 8, 0)"]),
        ({"patch": "8,8"}, ["8,8"]),
        ({"resolution": (12, 10, 8)}, ["x:12,y:10,z:12", "x:12,y:10,z:8"]),
        ({"patch": None}, ["centered_patches = 0.5", "no effect without patch"]),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(folder, changes, words):
    with pytest.raises((ConfigError, DataError, mi.LayoutError)) as caught:
        mi.jobs.train(**settings(folder, **changes), model_dir=folder / "refused")
    assert all(word in str(caught.value) for word in words), caught.value
    assert not (folder / "refused").exists()
