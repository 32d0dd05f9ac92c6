"""The resolution study: the commands that it runs, its scores, its table, and runs that are not repeated."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from benchmarks import resolution_study
from benchmarks.resolution_study import MEASURES, draw, read, read_scores, text
from benchmarks.tables import read_rows, write_rows
from mtf_imaging.cli.commands import all_commands
from mtf_imaging.cli.runtime import usage
from mtf_imaging.cli.runtime.subprocesses import command_words
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.evaluation.volume_scores.case import score_case
from mtf_imaging.evaluation.volume_scores.metrics_files import write_metrics
from tests.cli.test_demo import make_cases


@pytest.fixture
def lines(monkeypatch):
    """Replaces the commands and returns the list of calls; finer evaluations have higher scores."""
    asked = []

    def run(command, **values):
        asked.append((command, values))
        assert usage.parse_flags(command, all_commands.load(command), command_words(command, values)[1:])
        if command == "phantom":
            make_cases(values["output_dir"], values["num_cases"])
        if command == "evaluate":
            resolution = int(values["output_dir"].parent.name.split("_")[0])
            labels = np.zeros((16, 8, 8), np.uint8)
            labels[1:15, 1:7, 1:7] = 1
            labels[2:14, 2:6, 2:6] = 2
            found = labels.copy()
            found[resolution // 8 :] = 0
            write_metrics(values["output_dir"], [score_case("3", found, labels, (1.0, 1.0, 1.0))])
            (values["output_dir"] / "report.html").touch()

    monkeypatch.setattr(resolution_study, "run_command", run)
    return asked


@pytest.fixture
def study(monkeypatch):
    def run(out, *words):
        monkeypatch.setattr(sys, "argv", ["resolution_study", "--output_dir", str(out), *words])
        resolution_study.main()

    return run


def test_every_resolution_and_seed_is_trained_and_scored_on_the_same_cases(tmp_path, lines, study, capsys):
    words = ["--num_cases", "8", "--kind", "large_lesions", "--gin_param", "train.num_steps=7"]
    study(tmp_path, "--resolutions", "64,32", *words)
    assert lines[0][1]["kind"] == "large_lesions"
    assert [command for command, _ in lines] == ["phantom", *["convert", *["train", "evaluate"] * 3] * 2]
    trained = [values for command, values in lines if command == "train"]
    assert [(values["data_dir"].name, values["seed"]) for values in trained] == [
        *(("records_32", seed) for seed in (1, 2, 3)),
        *(("records_64", seed) for seed in (1, 2, 3)),
    ]
    assert all(values["gin_param"] == ["train.num_steps=7"] for values in trained)
    assert len({values["model_dir"] for values in trained}) == 6
    assert {values["input_dir"] for command, values in lines if command == "evaluate"} == {tmp_path / "held_out"}
    assert len([*(tmp_path / "held_out").iterdir()]) == 2 * 2
    coarse, fine = capsys.readouterr().out.splitlines()[-2:]
    assert coarse.startswith("| 32^3 | 0.353 (0.353 to 0.353) | 0.286 ")  # 3 of 14 planes, and 2 of 12: 6/17 and 4/14
    assert fine.startswith("| 64^3 | 0.667 (0.667 to 0.667) | 0.667 ")  # 7 of 14 planes, and 6 of 12
    assert len(read(tmp_path / "study.csv")) == 6


def test_finished_runs_are_not_repeated(tmp_path, lines, study):
    cases = ["--input_dir", str(make_cases(tmp_path / "cases", 4)), "--resolutions", "32", "--seeds"]
    study(tmp_path / "study", *cases, "1")
    assert [command for command, _ in lines] == ["convert", "train", "evaluate"]
    del lines[:]
    study(tmp_path / "study", *cases, "1,2")
    assert [values["seed"] for command, values in lines if command == "train"] == [2]
    (tmp_path / "study/32_seed_2/evaluation/report.html").unlink()  # like an evaluation that was killed
    del lines[:]
    study(tmp_path / "study", *cases, "1,2")
    assert [values["seed"] for command, values in lines if command == "train"] == [2]


@pytest.mark.slow
def test_the_job_trains_and_is_scored(tmp_path, study):
    write_phantom(tmp_path / "cases", 2, seed=1)
    words = ["--resolutions", "16", "--seeds", "1", "--gin_param", "train.num_steps=1"]
    study(tmp_path / "study", "--input_dir", str(tmp_path / "cases"), *words)
    (run,) = read(tmp_path / "study/study.csv")
    assert (run["resolution"], run["seed"]) == (16, 1)
    assert 0 <= run["liver"] <= 1
    assert (tmp_path / "study/study.png").is_file()


def make_run(resolution, seed, **dice):
    return {"resolution": resolution, "seed": seed} | dict.fromkeys(MEASURES, 0.5) | dice


def test_scores_are_read_from_metrics_json(tmp_path):
    reference = np.zeros((30, 12, 12), np.uint8)
    reference[1:29, 1:11, 1:11] = 1
    reference[2:4, 2:4, 2:4] = 2  # 8 voxels of 2 mm: a sphere of 5 mm, missed
    reference[10:14, 4:8, 4:8] = 2  # 64 voxels: a sphere of 9.9 mm, half of it predicted
    reference[20:26, 3:9, 3:9] = 2  # 216 voxels: a sphere of 14.9 mm, predicted
    prediction = reference.copy()
    prediction[2:4, 2:4, 2:4] = prediction[10:12, 4:8, 4:8] = 1
    prediction[17, 9, 9] = 2  # a false positive, which does not count as a reference lesion
    write_metrics(tmp_path, [score_case("1", prediction, reference, (2.0, 2.0, 2.0))])
    scores = read_scores(tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert scores["liver"] == metrics["liver"]["dice_per_case"] == 1
    assert scores["lesion"] == metrics["lesion"]["dice_per_case"]
    assert scores["lesions below 10 mm"] == pytest.approx((0 + 2 / 3) / 2)
    assert scores["lesions 10 to 20 mm"] == 1
    assert scores["lesions above 20 mm"] is None
    assert [value for name, value in scores.items() if name.startswith("number of ")] == [2, 1, 0]


def test_table_csv_and_picture(tmp_path):
    runs = [make_run(32, 1, lesion=0.1), make_run(32, 2, lesion=0.2), make_run(64, 1, lesion=0.4)]
    runs[0]["lesions above 20 mm"] = None
    assert text(runs).splitlines()[2].startswith("| 32^3 | 0.500 (0.500 to 0.500) | 0.150 (0.100 to 0.200) | ")
    write_rows(tmp_path / "study.csv", list(runs[0]), runs)
    assert read(tmp_path / "study.csv") == runs
    rows = read_rows(tmp_path / "study.csv")
    assert (rows[0]["lesions above 20 mm"], rows[2]["lesion"]) == ("", "0.4")
    draw(tmp_path / "study.png", runs, "a study")
    with Image.open(tmp_path / "study.png") as picture:
        assert picture.size[0] > picture.size[1] > 300
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50
