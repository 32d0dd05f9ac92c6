"""Gin files of earlier versions: an old name raises an error with the new name."""

import re

import pytest

from mtf_imaging.cli.config import configurables
from mtf_imaging.cli.config.renamed import RENAMES, find_renamed
from mtf_imaging.cli.main import main
from tests.evaluation.test_evaluate import store

OLD = """import mtf_imaging.models.unet3d

# All that was used, with the defaults:
Augmentation.noise = 0.0
job.task = @unet3d.Task()
Augmentation.scale = 0.1
unet3d.Task.network = @unet3d.UNet3D()
unet3d.UNet3D.alpha = 0.1
unet3d.UNet3D.keep_prob = 0.8
"""
TASK = "unet3d.Task is now unet3d.LiverTumorSegmentation"
RATE = "UNet3D.keep_prob is now UNet3D.dropout_rate = 1 - keep_prob (the fraction that dropout sets to zero)"
SLOPE = "UNet3D.alpha is now UNet3D.negative_slope"
CONTRAST = "Augmentation.scale is now Augmentation.contrast"


def error(capsys, *words):
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_all_renamed_parameters_of_an_earlier_run_are_reported(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "ckpt-1.index").touch()
    store(tmp_path / "cases", 1, "RAS")
    (run / "config.gin").write_text(OLD)
    predict = ["predict", f"--model_dir={run}", f"--input={tmp_path}/cases", f"--output={tmp_path}/out"]
    assert error(capsys, *predict).splitlines()[:3] == [
        f"mtf-imaging: gin file {run}/config.gin: No configurable matching reference '@unet3d.Task()'. "
        f"Some names have changed: {TASK}; {RATE}; {SLOPE}; {CONTRAST}. Fix: use the new names.",
        f'  In file "{run}/config.gin", line 5',
        "    job.task = @unet3d.Task()",
    ]
    new = OLD
    for one in RENAMES:
        new = new.replace(one.old, one.new)
    (run / "config.gin").write_text(new)
    assert "the resolution is not known" in error(capsys, *predict)  # the error after a valid configuration


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (
            "unet3d.UNet3D.keep_prob=0.8",
            f"doesn't have a parameter named 'keep_prob'. Some names have changed: {RATE}. Fix: ",
        ),
        ("UNet3D.alpha=0.0", f"Some names have changed: {SLOPE}. Fix: "),
        ("Augmentation.scale=0.1", f"Some names have changed: {CONTRAST}. Fix: "),
        ("Augmentation.shift=0.1", "Some names have changed: Augmentation.shift is now Augmentation.brightness. Fix: "),
        ("Task.dice='classes'", f"No configurable matching 'Task'. Some names have changed: {TASK}. Fix: "),
        ("job.task=@Task()", f"No configurable matching reference '@Task()'. Some names have changed: {TASK}. Fix: "),
        ("UNet3D.alpa=1", "doesn't have a parameter named 'alpa'. Known: classes, base_filters, "),
    ],
)
def test_old_names_on_the_command_line(capsys, parameter, text):
    assert text in error(capsys, "parameters", "--gin_file=unet3d_demo", f"--gin_param={parameter}")


def test_a_name_in_another_module_is_not_an_old_name(capsys):
    message = error(capsys, "parameters", "--gin_file=unet3d_demo", "--gin_param=mine.Task.dice=1")
    assert "No configurable matching 'mine.Task'." in message
    assert "changed" not in message


def test_an_old_name_in_an_included_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.gin").write_text("include 'unet3d_demo'\nunet3d.UNet3D.keep_prob = 0.5\n")
    (tmp_path / "mine.gin").write_text("include 'base.gin'\n")
    assert f"Some names have changed: {RATE}. Fix: use the new names." in error(capsys, "parameters", "--gin_file=mine")


def test_every_new_name_exists_and_no_old_one_does():
    configurables.import_all()
    names = " ".join(f"{one.name} " for one in configurables.parameters())
    for one in RENAMES:
        assert re.search(rf"\b{re.escape(one.new)}[. ]", names), one.new
    assert find_renamed(names) == []
