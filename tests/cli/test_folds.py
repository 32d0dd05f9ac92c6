"""`--fold`: one folder of records serves all folds, and the held-out cases are never trained on."""

import json
import shutil

import pytest

from tests import tiny_runs
from tests.commands import run
from tests.scores import read_rows
from tests.tiny_runs import train_volumes


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_runs.volumes(tmp_path_factory)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A run that holds out two of four cases."""
    folder = tmp_path_factory.mktemp("folds")
    fold = ["--fold", 1, "--num_folds", 2, "--splits_file", folder / "splits.json"]
    assert run(*words_of(data, folder / "run"), *fold) == 0
    return folder


def words_of(data, model_dir):
    return [*train_volumes(data, model_dir), "--num_steps", 4]


@pytest.mark.slow
def test_held_out_cases_are_scored_and_not_trained_on(folder):
    splits = json.loads((folder / "splits.json").read_text())
    assert (folder / "run/splits_final.json").read_bytes() == (folder / "splits.json").read_bytes()
    assert sorted(splits[0]["val"] + splits[1]["val"]) == ["0", "1", "2", "3"]
    trained = {key for row in read_rows(folder / "run/losses.csv") for key in row["cases"].split()}
    assert trained == {*splits[1]["train"]} == {*splits[0]["val"]}
    assert [row["step"] for row in read_rows(folder / "run/eval/scores.csv")] == ["2", "4"]
    assert len(list((folder / "run/best").glob("ckpt-*.index"))) == 1


@pytest.mark.slow
def test_a_run_resumes_only_with_its_fold(data, folder, capsys, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    words = ["train", "--data_dir", data / "records", "--model_dir", tmp_path / "run"]
    assert run(*words, "--num_steps", 4) == 0
    assert run(*words, "--fold", 0) == 2
    text = "run: this run began with another fold, or with other cases in it ("
    assert text in capsys.readouterr().err
    splits = json.loads((folder / "splits.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps(splits[::-1]))
    assert run(*words, "--splits_file", tmp_path / "other.json") == 2
    assert text in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_uses_the_held_out_cases_of_the_fold(data, folder, tmp_path, capsys):
    splits = json.loads((folder / "splits.json").read_text())
    words = ["evaluate", "--model_dir", folder / "run", "--input_dir", data / "cases", "--output_dir"]
    assert run(*words, tmp_path / "out", "--fold", 1) == 0
    assert json.loads((tmp_path / "out/metrics.json").read_text())["cases"].keys() == {*splits[1]["val"]}
    (tmp_path / "other.json").write_text('[{"train": ["1"], "val": ["0", "7"]}]')
    assert run(*words, tmp_path / "none", "--fold", 0, "--splits_file", tmp_path / "other.json") == 1
    assert "cases: the folder has no case 7. Fix: name the folder that holds these cases" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--fold", 0, "--eval_dir", "held_out"],
            "eval_dir held_out and fold 0 both choose the held-out cases. Fix",
        ),
        (["--num_folds", 3], "num_folds and splits_file have no effect without a fold. Fix: give fold, too."),
        (["--fold", 0, "--num_folds", 7], "num_folds = 7: 4 cases allow 2 to 4 folds"),
        (["--fold", 3, "--num_folds", 3], "fold: fold 3 does not exist; there are 3 folds. Fix: choose 0 to 2."),
        (
            ["--fold", 0, "--num_folds", 3, "--splits_file", "splits.json"],
            "splits.json: has 2 folds, but num_folds is 3",
        ),
        (["--fold", 0, "--splits_file", "wrong.json"], "wrong.json: the fold names cases that are not in "),
    ],
)
def test_errors_are_reported_before_anything_is_built(words, text, data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "splits.json").write_text('[{"train": ["1", "2"], "val": ["0", "3"]}, {"train": ["0"], "val": ["1"]}]')
    (tmp_path / "wrong.json").write_text('[{"train": ["1", "2", "3"], "val": ["0", "9"]}]')
    assert run(*words_of(data, "new"), *words) in (1, 2)
    assert text in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
