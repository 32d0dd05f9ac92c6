"""The last line of a command, which names the next one."""

import re

import pytest

from mtf_imaging.cli.runtime.subprocesses import QUIET
from tests.commands import run_line


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command line in an empty folder, and returns the lines that begin with "Next: "."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(QUIET, raising=False)

    def run(line):
        assert run_line(line.removeprefix("mtf-imaging ")) == 0
        return re.findall(r"^Next: (.*)$", capsys.readouterr().out, re.MULTILINE)

    return run


def test_a_command_names_one_next_command_unless_another_command_runs_it(run, monkeypatch):
    phantom = "mtf-imaging phantom --output_dir 'my cases' --num_cases 1"
    assert run(phantom) == ["mtf-imaging convert --input_dir 'my cases' --output_dir records --resolution 64"]
    monkeypatch.setenv(QUIET, "1")
    assert run(phantom) == []


@pytest.mark.slow
def test_a_chain_of_commands_leads_from_synthetic_cases_to_a_report(run):
    """Each suggested line runs with its placeholders filled in."""
    (line,) = run("mtf-imaging phantom --output_dir 'my cases' --num_cases 3")
    (line,) = run(line.replace("--resolution 64", "--resolution 16"))
    train, _, _ = line.partition(" (")
    assert train == "mtf-imaging train --data_dir records --model_dir run --gin_file JOB"
    train = train.replace("JOB", "unet3d_demo --fold 0 --num_folds 3 --num_steps 1 --gin.UNet3D.depth=2")
    assert run(f"{train} --dry_run") == ["the same command without --dry_run"]
    (line,) = run(train)
    assert line == "mtf-imaging evaluate --model_dir run --input_dir CASES --output_dir evaluation --fold 0"
    assert run(line.replace("CASES", "'my cases'")) == ["open evaluation/report.html in a browser"]
    (line,) = run("mtf-imaging predict --model_dir run --input 'my cases' --output 'my masks'")
    assert line.startswith("open 'my masks' in a viewer")
    assert run("mtf-imaging score --reference_dir 'my cases' --prediction_dir 'my masks' --output_dir scores") == [
        "open scores/report.html in a browser"
    ]
