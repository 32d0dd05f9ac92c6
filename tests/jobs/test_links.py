"""Links in the folders of exchanged runs do not lead training to the files of others."""

import pytest

from mtf_imaging.data.records.manifest import Manifest
from mtf_imaging.data.records.splits import Fold
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.cross_validation.fold_runs import FoldRuns
from mtf_imaging.jobs.runs import folder as run
from tests.leftovers import ended_path
from tests.records import contents


@pytest.fixture
def other(tmp_path):
    """The best checkpoint of another run, and an unfinished file as of a killed process."""
    folder = tmp_path / "other/best"
    folder.mkdir(parents=True)
    for name in ("ckpt-7.index", "ckpt-7.data-00000-of-00001", "checkpoint"):
        (folder / name).write_text(name)
    ended_path(folder / "scores.csv").touch()
    return folder


@pytest.fixture
def folder(tmp_path):
    """The folder of an exchanged run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    return tmp_path / "run"


NAMES = "best", "train", "eval", "wandb", "train/plugins", "best/ckpt-3_temp", "eval/scores.csv"


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_a_run_is_refused_before_anything_is_written(folder, other, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(other)
    before = contents(other), contents(folder)
    text = rf"run/{name}: is a symbolic link to .*other/best, .*Fix: remove the link, or choose another model_dir\."
    with pytest.raises(ConfigError, match=text) as error, run.held(folder):
        pass
    assert error.value.settings == ("model_dir",)
    assert (contents(other), contents(folder)) == before


def test_a_link_within_the_run_is_refused(folder):
    """The checkpoints of the run itself would be deleted, because only the best one is kept."""
    (folder / "best").symlink_to(folder)
    with pytest.raises(ConfigError, match="best: is a symbolic link"), run.held(folder):
        pass


def test_the_folder_of_the_run_may_be_a_link(folder, tmp_path):
    (folder / "wandb").mkdir()
    (folder / "wandb/latest-run").symlink_to(folder)  # Weights & Biases creates it
    (folder / "notes").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    with run.held(tmp_path / "link"):
        assert (folder / ".lock").exists()


@pytest.mark.parametrize("name", ["fold_0", "fold_0/evaluation"])
def test_a_link_in_a_cross_validation_is_refused(tmp_path, other, name):
    runs, splits = FoldRuns(tmp_path / "cv"), [Fold(("1",), ("2",)), Fold(("2",), ("1",))]
    manifest = Manifest(Sampling((8, 8, 8)), {"1": None, "2": None})
    runs.path.mkdir()
    runs.begin({}, splits, manifest)
    (runs.path / name).parent.mkdir(exist_ok=True)
    (runs.path / name).symlink_to(other)
    with pytest.raises(ConfigError, match=rf"cv/{name}: is a symbolic link .*choose another output_dir\."):
        runs.begin({}, splits, manifest)
