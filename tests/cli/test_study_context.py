"""The study of context on the command line."""

import pickle

import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import study


@pytest.fixture
def calls(monkeypatch):
    """Replaces the study and returns the list of its arguments."""
    asked = []
    monkeypatch.setattr(study, "run_context_study", lambda *arguments: asked.append(arguments))
    return asked


def run(out, *words):
    return main.main(["study", "--kind", "context", "--output_dir", str(out), *words])


def test_flags_and_the_job_reach_the_study(calls, tmp_path, capsys):
    words = (
        "--seeds",
        "1,2",
        "--phantoms",
        "side",
        "--contenders",
        "whole",
        "--contenders",
        "half",
        "--num_steps",
        "7",
    )
    assert run(tmp_path / "study", *words, "--gin_param", "a.b=1") == 0
    ((own, make, settings, num_steps),) = calls
    assert ([*own.seeds], [*own.phantoms], [*own.contenders]) == ([1, 2], ["side"], ["whole", "half"])
    assert (num_steps, own.cases_to_write) == (7, 60)
    assert settings["gin_file"] == ["unet3d_context"]
    assert pickle.loads(pickle.dumps(make)).args == (("unet3d_context",), ("a.b=1",))  # other processes call it
    assert capsys.readouterr().out.endswith(f"Next: open {tmp_path / 'study' / 'context.png'}\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--num_processes", "2"], "--num_processes=2: every training of a study of context runs in one process"),
        (["--gin_file", "unet3d_contxt"], "there is no gin file 'unet3d_contxt'"),
    ],
)
def test_mistakes_are_reported_before_anything_is_written(calls, tmp_path, capsys, words, text):
    assert run(tmp_path / "study", *words) != 0
    assert text in capsys.readouterr().err
    assert not calls
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--contenders", "half"], "whole is missing, whose CPU time is the budget of all others. Fix: add whole."),
        (["--phantoms", "sides"], "phantoms 'sides' are not known. Did you mean 'side'? Fix: choose from marker, side"),
        (["--input_dir", "CASES"], "a study of context needs the voxel size of the cases. Fix: give it as spacing."),
    ],
)
def test_mistakes_of_the_study_name_flags(tmp_path, capsys, words, text):
    (tmp_path / "cases").mkdir()
    words = [str(tmp_path / "cases") if word == "CASES" else word for word in words]
    assert run(tmp_path / "study", *words) != 0
    assert text in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "study").exists()
