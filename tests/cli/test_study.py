"""The study: the commands that it runs, its resumption, and its errors."""

import re
import sys

import numpy as np
import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import all_commands, study
from mtf_imaging.cli.runtime import subprocesses, usage
from mtf_imaging.evaluation.scoring.case import score_case
from mtf_imaging.evaluation.scoring.metrics import write_metrics
from tests.cli.test_demo import make_cases


@pytest.fixture
def lines(monkeypatch):
    """Replaces the commands and returns the list of calls; finer evaluations have higher scores."""
    asked = []

    def run(command, **values):
        asked.append((command, values))
        own = {name: value for name, value in values.items() if name != "num_processes"}  # which is a flag of launch
        assert usage.parse_flags(command, all_commands.load(command), _words(own))
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

    monkeypatch.setattr(study, "run_command", run)
    return asked


def _words(values):
    flags = []
    for name, value in values.items():
        flags += [f"--{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return flags


def run(out, *words):
    return main.main(["study", "--output_dir", str(out), *words])


@pytest.mark.slow
def test_every_resolution_and_seed_is_trained_and_scored_on_the_same_cases(tmp_path, lines, capsys):
    assert run(tmp_path / "study", "--resolutions", "64,32", "--num_steps", "7", "--gin_param", "a.b=1") == 0
    commands = [command for command, _ in lines]
    assert commands == ["phantom", *["convert", *["train", "evaluate"] * 3] * 2]
    trained = [values for command, values in lines if command == "train"]
    assert [(values["data_dir"].name, values["seed"]) for values in trained] == [
        *(("records_32", seed) for seed in (1, 2, 3)),
        *(("records_64", seed) for seed in (1, 2, 3)),
    ]
    assert {values["num_steps"] for values in trained} == {7}
    assert len({values["model_dir"] for values in trained}) == 6
    assert {values["input_dir"] for command, values in lines if command == "evaluate"} == {tmp_path / "study/held_out"}
    out = capsys.readouterr().out
    assert re.findall(r"^# Training (\d) of up to 6(.*)\.$", out, re.MULTILINE) == [
        ("1", ""),
        *((str(number), " (about 1 min left)") for number in range(2, 7)),
    ]
    assert out.endswith(f"\nNext: tensorboard --logdir {tmp_path / 'study'}\n")
    assert "32^3" in out
    assert out.index("32^3") < out.index("64^3")
    assert (tmp_path / "study/study.png").is_file()
    assert (tmp_path / "study/study.csv").read_text().count("\n") == 7


def test_trainings_and_evaluations_run_as_several_processes(tmp_path, lines, monkeypatch, capsys):
    assert run(tmp_path / "study", "--resolutions", "32", "--seeds", "1", "--num_processes", "2") == 0
    processes = [(command, values.get("num_processes", 1)) for command, values in lines]
    assert processes == [("phantom", 1), ("convert", 1), ("train", 2), ("evaluate", 2)]
    started = []
    nothing = subprocesses.Program([sys.executable, "-c", ""], {})
    monkeypatch.setattr(subprocesses, "own_program", lambda words: started.append(words) or nothing)
    subprocesses.run_command("train", num_processes=2, model_dir="run")
    assert started[0] == ["launch", "--num_processes", "2", "--", "train", "--model_dir", "run"]
    assert "$ mtf-imaging launch --num_processes 2 -- train --model_dir run\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_study_resumes_and_can_be_extended(tmp_path, lines):
    out = tmp_path / "study"
    assert run(out, "--resolutions", "32", "--seeds", "1") == 0
    del lines[:]
    assert run(out, "--resolutions", "32", "--seeds", "1,2") == 0
    assert [command for command, _ in lines] == ["convert", "train", "evaluate"]
    assert lines[1][1]["seed"] == 2
    del lines[:]
    assert run(out, "--resolutions", "32", "--seeds", "1,2") == 0
    assert not lines
    (out / "32_seed_2" / "evaluation" / "report.html").unlink()  # like an evaluation that was killed
    assert run(out, "--resolutions", "32", "--seeds", "1,2") == 0
    assert [command for command, _ in lines] == ["convert", "train", "evaluate"]
    del lines[:]
    (out / "cases" / "volume-0.nii.gz").unlink()  # like a run that ended before all cases were written
    assert run(out, "--resolutions", "32", "--seeds", "1,2") == 0
    assert [command for command, _ in lines] == ["phantom"]


def test_a_study_that_was_killed_at_once_can_be_repeated(tmp_path, lines):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / ".lock").touch()
    (tmp_path / "study" / ".partial-1-study.json").touch()
    assert run(tmp_path / "study", "--resolutions", "32", "--seeds", "1") == 0
    assert lines


def test_custom_cases(tmp_path, lines):
    cases = make_cases(tmp_path / "cases", 4)
    assert run(tmp_path / "study", "--input_dir", str(cases), "--resolutions", "32", "--seeds", "1") == 0
    assert "phantom" not in [command for command, _ in lines]


def test_held_out_cases_in_a_separate_folder(tmp_path, lines, capsys):
    cases, held_out = make_cases(tmp_path / "cases", 4), make_cases(tmp_path / "other", 2)
    words = ["--held_out_dir", str(held_out), "--resolutions", "32", "--seeds", "1"]
    assert run(tmp_path / "study", *words) == 2
    assert "held_out_dir requires a folder of training cases. Fix: give it as input_dir." in capsys.readouterr().err
    assert run(tmp_path / "study", "--input_dir", str(cases), *words) == 0
    (convert,) = [values for command, values in lines if command == "convert"]
    (evaluate,) = [values for command, values in lines if command == "evaluate"]
    assert (convert["input_dir"], evaluate["input_dir"]) == (cases, held_out)


def test_errors_are_reported(tmp_path, lines, capsys):
    out = tmp_path / "study"
    for flag, value, kind in (
        *(("resolutions", "32,a", "positive"), ("resolutions", "32,32", "positive"), ("resolutions", "0", "positive")),
        *(("seeds", "-1", "non-negative"), ("seeds", "0,0", "non-negative"), ("seeds", "", "non-negative")),
    ):
        assert run(out, f"--{flag}={value}") == 2
        message = f"--{flag}={value}: needs different {kind} integers. Fix: for instance --{flag}=1,2."
        assert message in capsys.readouterr().err
    assert not out.exists()
    assert run(out, "--resolutions", "32", "--seeds", "1", "--num_steps", "5") == 0
    assert run(out, "--resolutions", "32", "--seeds", "1", "--num_steps", "6") == 2
    assert "contains a study with num_steps 5, but 6 is given. Fix: give the same value" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert run(tmp_path / "other") == 2
    assert "contains files that are not part of a study. Fix" in capsys.readouterr().err
