"""The custom network and data set of docs/guides/own_network.md work without changes, on 2-D images."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import pages
from tests.commands import run

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "own_network.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes the files and the images of the page to a folder, which is the working directory of these tests."""
    folder = tmp_path_factory.mktemp("own_model")
    pages.write_files(PAGE, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        runpy.run_path("make_images.py")
        yield folder
        for name in ("my_net", "my_optimizer"):
            sys.modules.pop(name, None)


def train(model_dir, *words):
    """Trains as a new process would, with a clean gin configuration; returns the exit code."""
    return run("train", "--data_dir=images", f"--model_dir={model_dir}", *words)


def losses(model_dir):
    return np.loadtxt(f"{model_dir}/losses.csv", delimiter=",", skiprows=1, usecols=1)


def test_the_network_has_no_more_lines_than_the_page_states():
    assert sum(bool(line.strip()) for line in pages.files(PAGE)["my_net.py"].splitlines()[1:]) <= 35


@pytest.mark.slow
def test_it_learns_and_its_weights_are_used_from_python(folder, capsys):
    assert train("run", "--gin_file=my_job") == 0
    values = losses("run")
    assert len(values) == 100
    assert np.mean(values[-10:]) < 0.2 * values[0]
    capsys.readouterr()
    runpy.run_path("use.py")
    dice = float(capsys.readouterr().out.removeprefix("Dice: "))
    assert dice > 0.6


def test_a_dry_run_shows_the_slices_of_the_page(folder, capsys):
    assert train("dry", "--gin_file=my_job", "--dry_run") == 0
    report = capsys.readouterr().out.partition("Next: ")[0]
    cost, slices = report.strip().rsplit("\n\n", 1)
    assert cost.startswith("mesh rows:2,cols:2, layout x:rows,y:cols: 4 processors on 4 devices")
    assert slices in pages.blocks(PAGE, "text")[0]
    assert not Path("dry").exists()


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize(
    ("mesh_shape", "layout", "mesh_impl"),
    [
        ("rows:2,cols:2", "x:rows,y:cols", "stacked"),
        ("rows:2,cols:2", "x:rows,y:cols", "placement"),
        ("rows:16", "x:rows", "stacked"),
        ("cores:4", "batch:cores", "placement"),
    ],
)
def test_a_layout_changes_no_loss(folder, mesh_shape, layout, mesh_impl):
    setup = ("--gin_file=my_job", "--gin.job.dtype='float64'", "--num_steps=12")
    if not Path("whole").exists():
        assert train("whole", *setup, "--mesh_shape=", "--layout=") == 0
    name = f"{mesh_impl} {layout}"
    assert train(name, *setup, f"--mesh_shape={mesh_shape}", f"--layout={layout}", f"--mesh_impl={mesh_impl}") == 0
    np.testing.assert_allclose(losses(name), losses("whole"), rtol=1e-9)


@pytest.mark.slow
def test_micro_batches_have_the_same_losses_and_cases(folder):
    setup = ("--gin_file=my_job", "--gin.job.dtype='float64'", "--num_steps=12")
    assert train("at once", *setup) == 0
    assert train("in parts", *setup, "--micro_batches=2") == 0
    np.testing.assert_allclose(losses("in parts"), losses("at once"), rtol=1e-9)
    cases = [np.genfromtxt(f"{name}/losses.csv", str, delimiter=",", usecols=2) for name in ("in parts", "at once")]
    np.testing.assert_array_equal(*cases)


@pytest.mark.slow
def test_a_run_resumes_with_its_saved_configuration(folder):
    assert train("broken", "--gin_file=my_job", "--num_steps=3") == 0
    assert "import my_net" in Path("broken/config.gin").read_text()
    assert "setup.resolution = 'x:64,y:64'" in Path("broken/config.gin").read_text()
    assert train("broken", "--num_steps=6") == 0
    assert train("unbroken", "--gin_file=my_job", "--num_steps=6") == 0
    np.testing.assert_array_equal(losses("broken"), losses("unbroken"))


OWN_OPTIMIZER = ("--gin_file=my_job", "--gin_file=my_optimizer", "--num_steps=20")


def test_a_custom_optimizer_and_schedule_learn(folder):
    assert train("lion", *OWN_OPTIMIZER) == 0
    values = losses("lion")
    assert np.mean(values[-5:]) < 0.4 * values[0]


@pytest.mark.slow
def test_a_custom_optimizer_gives_the_same_losses_under_every_layout(folder):
    exact = (*OWN_OPTIMIZER, "--gin.job.dtype='float64'")
    assert train("lion whole", *exact, "--mesh_shape=", "--layout=") == 0
    assert train("lion split", *exact, "--mesh_shape=rows:2,cols:2", "--layout=x:rows,filters:cols") == 0
    np.testing.assert_allclose(losses("lion split"), losses("lion whole"), rtol=1e-9)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--resolution=x:64,y:64,z:64"],
            "needs a positive size for x and y. Fix: give, for example, '64' or 'x:192,y:192'.",
        ),
        (
            ["--resolution=32"],
            "'image' has the shape [4, 64, 64, 1], but the task's input here is [4, 32, 32, 1].",
        ),
        (
            ["--gin_param=import my_optimizer", "--gin_param=train.optimizer = @Lion()"],
            "Lion.learning_rate has no value. Fix: set it in a gin file, Lion.learning_rate = VALUE, or on",
        ),
        (
            ["--gin_param=job.task = @FindBlobs"],
            "mtf-imaging: task is the class FindBlobs, which cannot be called as task.inputs(batch_size, sizes, dtype=",
        ),
        (["--gin_param=job.task = @Images()"], "task is of class Images, which cannot be called as task.inputs("),
        (["--gin_param=train.data = @FindBlobs()"], "\nOn the command line: --gin.train.data='@NAME()'.\n"),
        (["--gin_param=FindBlobs.filter = 3"], "doesn't have a parameter named 'filter'. Did you mean 'filters'?"),
    ],
)
def test_mistakes_are_reported_before_anything_is_written(folder, capsys, words, message):
    assert train("mistake", "--gin_file=my_job", *words) in (1, 2)
    assert message in capsys.readouterr().err
    assert not list(Path("mistake").glob("*.gin"))
