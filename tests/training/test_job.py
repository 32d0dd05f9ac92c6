"""The whole job on the command line, from synthetic CTs to metrics, on both meshes, with uneven slices."""

import logging
import shutil

import numpy as np
import pytest

from tests import tiny_runs
from tests.commands import run
from tests.records import contents
from tests.scores import read_scores
from tests.tiny_runs import train_volumes

TINY = [
    "--gin_file",
    "unet3d_demo",
    "--gin.UNet3D.base_filters=2",
    "--gin.UNet3D.depth=2",
    "--gin.UNet3D.convs=1",
    "--gin.UNet3D.dropout_rate=0.5",
    "--gin.job.dtype='float64'",
    "--gin.Adam.learning_rate=0.003",  # the job's schedule ends with the run, and a run resumes with more steps
]
SIZES = "x:15,y:16,z:13"
LAYOUTS = {
    "whole": [],
    "stacked": [
        "--mesh_shape",
        "rows:2,cols:2,cores:2",
        "--layout",
        "x:rows,y:cols,batch:cores",
        "--mesh_impl",
        "stacked",
    ],
    "placement": ["--mesh_shape", "rows:2,cores:2", "--layout", "z:rows,batch:cores", "--mesh_impl", "placement"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_runs.volumes(tmp_path_factory)


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """Trains four steps under each layout. The run "whole" stops after two and resumes with its saved configuration."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["--input_dir", data / "cases", "--output_dir", folder / "records", "--resolution", SIZES]
    assert run("convert", *words, "--workers", 1) == 0
    for name, steps in (("stacked", 4), ("placement", 4), ("whole", 2)):
        words = ["--data_dir", folder / "records", "--model_dir", folder / name, "--batch_size", 3, "--seed", 3]
        assert run("train", *words, *TINY, *LAYOUTS[name], "--num_steps", steps) == 0
    assert run("train", "--data_dir", folder / "records", "--model_dir", folder / "whole", "--num_steps", 4) == 0
    return folder


def losses(folder):
    return np.loadtxt(folder / "losses.csv", delimiter=",", skiprows=1, usecols=(0, 1), ndmin=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stacked", "placement"])
def test_losses_equal_those_of_a_resumed_run_without_a_layout(runs, name):
    whole = losses(runs / "whole")
    np.testing.assert_array_equal(whole[:, 0], range(4))
    np.testing.assert_allclose(losses(runs / name), whole, rtol=1e-9)


@pytest.mark.slow
def test_evaluation_drops_the_rule_for_batch_and_gives_the_same_metrics(data, runs, caplog):
    arguments = ["evaluate", "--model_dir", runs / "stacked", "--input_dir", data / "cases", "--output_dir"]
    with caplog.at_level(logging.INFO):
        assert run(*arguments, runs / "a") == 0
    assert "'batch:cores' is dropped from the layout" in caplog.text
    assert run(*arguments, runs / "b", "--layout", "", "--mesh_shape", "") == 0
    metrics = read_scores(runs / "a")
    assert len(metrics["cases"]) == 4
    assert metrics == read_scores(runs / "b")


@pytest.mark.slow
def test_prediction_on_the_placement_mesh(data, runs, tmp_path):
    volume = next((data / "cases").glob("volume-*"))
    assert (
        run("predict", "--model_dir", runs / "placement", "--input", volume, "--output", tmp_path / "one.nii.gz") == 0
    )
    assert (tmp_path / "one.nii.gz").is_file()


def test_a_dry_run_prints_slices_and_writes_nothing(data, tmp_path, capsys):
    assert run(*train_volumes(data, tmp_path / "dry"), *LAYOUTS["stacked"], "--num_steps", 1, "--dry_run") == 0
    table = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert table["image"].endswith("1 x 6 x 6 x 12 x 1")
    assert table["unet3d/down0/conv0/filter"].endswith("3 x 3 x 3 x 1 x 2")
    assert not any(tmp_path.iterdir())


def test_the_configuration_is_saved_and_a_change_is_logged(data, tmp_path, caplog):
    saved = shutil.copytree(data / "run", tmp_path / "run")
    text = (saved / "config.gin").read_text()
    for binding in ("setup.layout = 'x:rows,y:cols'", "setup.resolution = 'x:12,y:12,z:12'", "train.seed = 3"):
        assert binding in text
    arguments = ["train", "--data_dir", data / "records", "--model_dir", saved]
    assert run(*arguments) == 0
    assert (saved / "config.gin").read_text() == text
    assert "changed configuration" not in caplog.text
    assert run(*arguments, "--gin.Adam.learning_rate=0.5") == 0
    assert "the run resumes with a changed configuration: Adam.learning_rate = 0.5" in caplog.text
    assert "Adam.learning_rate = 0.5" in (saved / "config.gin").read_text()


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--gin.UNet3D.base_filters=3"], "this checkpoint belongs to another network or optimizer: 'unet3d/"),
        (["--gin.UNet3D.depth=0"], "UNet3D.depth = 0: it must be an int of at least 1 and at most 16."),
        (["--layout", "x:cols,batch:cols"], "cannot split both 'batch' (size 2) and 'x' (size 12) over 'cols'"),
        (["--resolution", "32"], ", not x:32,y:32,z:32"),
    ],
)
def test_mistakes_are_reported_without_a_traceback_and_do_not_change_the_run(data, tmp_path, change, text, capsys):
    saved = shutil.copytree(data / "run", tmp_path / "run")
    before = contents(saved)
    arguments = ["train", "--data_dir", data / "records", "--model_dir", saved, "--num_steps", 6]
    assert run(*arguments, *change) in (1, 2)
    assert text in capsys.readouterr().err
    assert contents(saved) == before


def test_a_folder_with_other_files_is_refused(data, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert run(*train_volumes(data, tmp_path), "--num_steps", 1) == 2
    assert "contains notes.txt but neither config.gin nor run.json" in capsys.readouterr().err
