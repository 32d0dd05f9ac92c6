"""The job gin/video_motion learns, under a split of the time; docs/guides/video.md works without changes."""

import importlib
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet import Classification
from mtf_imaging.models.video import GeneratedClips, R2Plus1D
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from tests import pages
from tests.commands import run
from tests.training.test_shipped_jobs import dry_run

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "video.md"
DIMS = ("time", "height", "width")


def train(model_dir, *words):
    """Trains as a new process would, with a clean gin configuration; returns the table of the steps."""
    assert run("train", f"--model_dir={model_dir}", *words) == 0
    return np.genfromtxt(Path(model_dir) / "losses.csv", delimiter=",", names=True, usecols=(0, 1, 2))


@pytest.mark.slow
def test_it_learns(tmp_path):
    """The full job classifies 99% correctly. Half of its steps are enough to show that it learns."""
    table = train(tmp_path / "run", "--gin_file=video_motion", "--data_dir=none", "--num_steps=450")
    assert np.mean(table["accuracy"][:50]) < 0.4
    assert np.mean(table["accuracy"][-50:]) > 0.75


@pytest.mark.slow
def test_a_layout_changes_no_loss():
    network = R2Plus1D(classes=6, blocks=(1, 1), base_filters=2, stem_kernel=3, causal=True)
    task, sizes = Classification(network, dims=DIMS), (5, 16, 18)
    step, inputs = training_step(task, SGD(0.05, nesterov=True, weight_decay=1e-3)), task.inputs(4, sizes, tf.float64)
    setup = {"mesh_shape": "frames:2,rows:2", "layout": "time:frames,height:rows"}
    programs = [mi.Program(step, inputs), mi.Program(step, inputs, **setup)]
    batches = GeneratedClips(*sizes).batches(None, batch_size=4, sizes=sizes, seed=0, start_step=0)
    for _, batch in zip(range(5), batches):
        clips = {"image": tf.cast(batch["image"], tf.float64), "labels": batch["labels"]}
        want, got = ({name: float(value) for name, value in program(**clips).items()} for program in programs)
        assert got == pytest.approx(want, rel=1e-9)


@pytest.mark.slow
def test_a_dry_run_shows_the_slices_of_the_page(capsys):
    assert dry_run("--gin_file=video_motion") == 0
    out = capsys.readouterr().out
    assert pages.blocks(PAGE, "text")[0] in out
    assert out.startswith("mesh frames:2,rows:2, layout time:frames,height:rows: 4 processors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes the files and the clips of the page to a folder, which is the working directory of the tests of clips."""
    folder = tmp_path_factory.mktemp("own_clips")
    pages.write_files(PAGE, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        runpy.run_path("make_clips.py")
        yield folder
        sys.modules.pop("my_clips", None)


@pytest.mark.slow
def test_own_clips_are_learned_and_classified(folder, capsys):
    table = train("run", "--gin_file=my_clips_job", "--data_dir=clips")
    assert len(table) == 200
    assert np.mean(table["accuracy"][-20:]) > 0.9
    capsys.readouterr()
    runpy.run_path("use_clips.py")
    assert float(capsys.readouterr().out.removeprefix("probability of right: ")) > 0.5


@pytest.mark.slow
def test_sample_n_of_own_clips_depends_only_on_n(folder):
    clips = importlib.import_module("my_clips").Clips()
    sizes = clips.sizes("clips")
    assert sizes == (8, 24, 24)

    def take(count, batch_size, start_step=0):
        batches = clips.batches("clips", batch_size=batch_size, sizes=sizes, seed=1, start_step=start_step)
        items = [next(batches) for _ in range(count)]
        return [np.concatenate([item[name] for item in items]) for name in ("image", "labels", "cases")]

    want = take(1, 12)
    assert set(want[1]) == {0, 1}
    for values, expected, later in zip(take(3, 4), want, take(1, 4, start_step=2)):
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(later, expected[8:])
