"""`cross_validate` and `predict --ensemble` on the command line."""

import re
import signal

import pytest

from mtf_imaging.cli.config import run_config
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs import cross_validating
from tests.commands import run
from tests.jobs.test_cross_validate import write_cases
from tests.scores import read_scores
from tests.training.test_job import TINY


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folds 0 and 2 of three."""
    folder = tmp_path_factory.mktemp("cross_validate")
    write_cases(folder / "cases", 3)
    words = ["--input_dir", folder / "cases", "--output_dir", folder / "records", "--resolution", 8]
    assert run("convert", *words, "--workers", 1) == 0
    assert run(*words_of(folder), "--num_folds", 3, "--folds", "0,2") == 0
    return folder


def words_of(folder):
    paths = ["--data_dir", folder / "records", "--input_dir", folder / "cases", "--output_dir", folder / "cv"]
    return ["cross_validate", *paths, *TINY, "--gin.UNet3D.base_filters=1", "--num_steps", 1, "--workers", 1]


@pytest.mark.slow
def test_the_command_trains_the_folds_and_names_the_next_command(folder, capsys):
    assert run(*words_of(folder), "--folds", "0,2") == 0
    out = capsys.readouterr().out
    assert "Already finished: folds 0, 2." in out
    assert "Pooled over folds 0, 2 only: 2 of 3 cases. Not finished: fold 1." in out
    assert out.splitlines()[-1] == f"Next: open {folder / 'cv/report.html'} in a browser"
    assert re.search(r"^train\.fold = 2$", (folder / "cv/fold_2/config.gin").read_text(), re.MULTILINE)


@pytest.mark.slow
def test_other_parameters_are_refused_with_their_flags(folder, capsys):
    assert run(*words_of(folder), "--num_steps", 2) == 2
    text = "has num_steps 1, but 2 is given. Fix: give the same num_steps, or give another output_dir.\n"
    assert text + "On the command line: --num_steps, --output_dir." in capsys.readouterr().err
    assert run(*words_of(folder), "--gin.UNet3D.depth=3") == 2
    assert "has task ...depth=2, but ...depth=3 is given. Fix" in capsys.readouterr().err
    assert run(*words_of(folder), "--folds", "0,x") == 2
    assert "--folds=0,x: needs numbers of folds. Fix: for instance --folds=0,2." in capsys.readouterr().err
    assert run(*words_of(folder), "--folds", "3") == 2
    assert "folds [3]: there are 3 folds." in capsys.readouterr().err


@pytest.mark.slow
def test_a_fold_is_a_run_that_other_commands_use(folder, tmp_path):
    words = ["--model_dir", folder / "cv/fold_2", "--input_dir", folder / "cases", "--output_dir", tmp_path / "scores"]
    assert run("evaluate", *words, "--fold", 2) == 0
    assert read_scores(tmp_path / "scores") == read_scores(folder / "cv/fold_2/evaluation")


@pytest.mark.slow
def test_an_ensemble_of_folds_segments_a_folder(folder, tmp_path, capsys):
    words = ["predict", "--input", folder / "cases", "--output", tmp_path / "out", "--model_dir"]
    assert run(*words, folder / "cv", "--ensemble") == 0
    assert len(list((tmp_path / "out").glob("segmentation-?.nii*"))) == 3
    assert run(*words, folder / "cv") == 2
    capsys.readouterr()
    assert run(*words, folder / "cv/fold_0", "--ensemble") == 2
    assert "holds no folds (fold_0, fold_1, ...)" in capsys.readouterr().err


@pytest.mark.slow
def test_a_signal_ends_the_command_with_the_exit_code_of_train(folder, monkeypatch, capsys):
    monkeypatch.setattr(cross_validating, "train", lambda **options: signal.raise_signal(signal.SIGTERM))
    assert run(*words_of(folder)) == 75
    assert "SIGTERM: stopped while no network was training. Start cross_validate again" in capsys.readouterr().err
    assert not (folder / "cv/fold_1").exists()


def write_config(folder, text):
    folder.mkdir()
    (folder / "config.gin").write_text(text)
    return folder


def test_only_parameters_of_the_network_are_compared(tmp_path):
    common = "job.task = @unet3d.LiverTumorSegmentation()\nLiverTumorSegmentation.network = @UNet3D()\n"
    first = write_config(tmp_path / "fold_0", common + "UNet3D.depth = 2\ntrain.fold = 0\nAdam.learning_rate = 0.1\n")
    other = write_config(tmp_path / "fold_1", common + "UNet3D.depth = 2\ntrain.fold = 1\nAdam.learning_rate = 0.2\n")
    run_config.check_same_network([first, other, tmp_path / "fold_2"])
    deep = write_config(tmp_path / "fold_3", common + "unet3d.UNet3D.depth = 3\n")
    text = r"fold_3: was trained with UNet3D\.depth = 3, but .*fold_0 with 2, so they are different networks\. Fix"
    with pytest.raises(ConfigError, match=text):
        run_config.check_same_network([first, other, deep])
    window = write_config(tmp_path / "fold_4", common + "UNet3D.depth = 2\njob.window = (0, 1)\n")
    with pytest.raises(ConfigError, match=r"job\.window = \(0, 1\), but .*fold_0 with 'its default'"):
        run_config.check_same_network([first, window])
