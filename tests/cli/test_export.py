"""`mtf-imaging export`: what it prints and writes, and mistakes before TensorFlow is loaded."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny_runs
from tests.commands import run_line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose configuration has a window and flips, and its records."""
    folder, made = tmp_path_factory.mktemp("export"), tiny_runs.volumes(tmp_path_factory)
    for name in ("run", "records"):
        shutil.copytree(made / name, folder / name)
    with open(folder / "run/config.gin", "a") as file:
        file.write('job.window = (-200.0, 300.0)\njob.flips = ("x",)\n')
    return folder


@pytest.fixture(autouse=True)
def current_folder(request, monkeypatch):
    if "folder" in request.fixturenames:
        monkeypatch.chdir(request.getfixturevalue("folder"))


@pytest.mark.slow
def test_it_prints_the_inputs_and_uses_the_settings_of_the_run(folder, tmp_path, capsys):
    output = tmp_path / "model"
    assert run_line(f"export --model_dir run --output {output}") == 0
    printed = capsys.readouterr().out
    assert "serving_default: Segments an image that is already on the voxel grid of the network.\n" in printed
    assert "  input image: float32 [x: 12, y: 12, z: 12]\n" in printed
    assert "  output labels: uint8 [x: any, y: any, z: any]\n" in printed
    assert "The grid of 12 x 12 x 12 voxels covers the whole field of view of each image" in printed
    assert f"Next: read {output}/README.md\n" in printed
    card = json.loads((output / "input.json").read_text())
    assert (card["intensities"], card["flips"]) == (["window -200 300"], ["x"])
    assert run_line(f"export --model_dir run --output {output}") == 1
    assert f"{output}: already exists, and is never replaced. Fix: name a new folder." in capsys.readouterr().err


@pytest.mark.slow
def test_flags_choose_another_grid(folder, tmp_path, capsys):
    assert (
        run_line(f"export --model_dir run --output {tmp_path / 'model'} --resolution 14 --spacing 30 --layout x:rows")
        == 0
    )
    output, error = capsys.readouterr()
    assert "--layout x:rows has no effect: an exported network is not split." in error
    assert "  input image: float32 [x: 14, y: 14, z: 14]\n" in output
    assert "  input spacing: float64 [axes: 3]\n" in output
    assert "The grid of 14 x 14 x 14 voxels of 30,30,30 mm lies in the center" in output.replace("\n", " ")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("export --output model", "export needs --model_dir"),
        ("export --model_dir run", "export needs --output"),
        ("export --model_dir run --output records", "records: already exists, and is never replaced."),
        ("export --model_dir none --output model", "none: this folder does not exist. Fix: give the folder of a run"),
        ("export --model_dir run --output model --checkpoint best", "run: this run has no best checkpoint"),
        ("export --model_dir run --output model --ensemble", "run: this folder holds no folds (fold_0, fold_1, ...)"),
        ("export --model_dir run --output model --micro_batches 2", "export has no flag '--micro_batches'"),
    ],
)
def test_mistakes_are_reported(folder, capsys, line, text):
    assert run_line(line) != 0
    assert text in capsys.readouterr().err
    assert not Path("model").exists()


def test_an_existing_folder_is_reported_before_tensorflow_is_loaded(folder):
    program = (
        "import sys; from mtf_imaging.cli.main import main; main(sys.argv[1:]); assert 'tensorflow' not in sys.modules"
    )
    words = ["export", "--model_dir", "run", "--output", "records"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "records: already exists" in done.stderr


def test_help(capsys):
    assert run_line("export --help") == 0
    output = " ".join(capsys.readouterr().out.split())  # lines may break at any space
    assert "mtf-imaging export --model_dir run --output model" in output
    assert "mtf-imaging export --model_dir folds --ensemble --output model" in output
    assert "--layout" not in output
