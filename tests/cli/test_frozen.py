"""`mtf-imaging train --frozen --average_decay`: what it prints and saves, and predictions from averages."""

import re
from pathlib import Path

import numpy as np
import pytest

from mtf_imaging.training.checkpoints.weights_folder import Weights
from tests.cli.test_import_weights import JOB
from tests.commands import run_line

TRAIN = "train --gin_file job.gin --data_dir none --model_dir run"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.gin").write_text(JOB.replace("SGD.learning_rate = 0.0", "SGD.learning_rate = 0.1"))
    np.save("image.npy", np.random.default_rng(0).random((16, 16, 3)))


def variables(step):
    weights = Weights(f"run/ckpt-{step}")
    return dict(weights.read([*weights.shapes]))


def test_a_dry_run_counts_the_frozen_weights(capsys):
    assert run_line(f"{TRAIN} --num_steps 1 --dry_run --frozen resnet/stem*") == 0
    output = capsys.readouterr().out
    assert re.search(r"^596 weights in 3 variables are frozen$", output, re.MULTILINE)  # 7 x 7 x 3 x 4 + 2 x 4


def test_a_pattern_without_variables_is_refused(capsys):
    assert run_line(f"{TRAIN} --num_steps 1 --frozen resnet/stom") == 2
    error = capsys.readouterr().err
    assert "frozen: no variable of the network has this name or is in the scope 'resnet/stom'. Did you mean" in error
    assert "On the command line: --frozen" in error


@pytest.mark.slow
def test_a_run_freezes_thaws_and_averages(capsys):
    assert run_line(f"{TRAIN} --num_steps 1 --frozen resnet/stem*,resnet/stage0 --average_decay 0.5") == 0
    configuration = Path("run/config.gin").read_text()
    assert "train.frozen = 'resnet/stem*,resnet/stage0'" in configuration
    assert "train.average_decay = 0.5" in configuration
    first = variables(1)
    assert "resnet/stem/filter/velocity" not in first
    averages = {name for name in first if name.endswith("/average")}
    assert averages
    assert not any("/stem" in name or "/stage0" in name for name in averages)
    np.testing.assert_array_equal(first["resnet/stem_norm/moving_mean"], 0)

    # The saved configuration freezes the same weights, and the flag thaws them.
    assert run_line("train --data_dir none --model_dir run --num_steps 2") == 0
    second = variables(2)
    np.testing.assert_array_equal(second["resnet/stem/filter"], first["resnet/stem/filter"])
    assert run_line("train --data_dir none --model_dir run --num_steps 3 --frozen ''") == 0
    third = variables(3)
    assert not np.array_equal(third["resnet/stem/filter"], first["resnet/stem/filter"])
    assert "resnet/stem/filter/velocity" in third

    predict = "predict --model_dir run --input image.npy --output"
    assert run_line(f"{predict} averages.npy") == 0
    assert run_line(f"{predict} last.npy --noaverages") == 0
    assert not np.allclose(np.load("averages.npy"), np.load("last.npy"), rtol=1e-4)
    assert run_line("export --model_dir run --output model") == 0
