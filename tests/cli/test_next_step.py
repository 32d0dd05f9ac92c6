"""The line that a command ends with: it parses, and a chain of these lines runs."""

import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import gin
import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands.all_commands import load
from mtf_imaging.cli.runtime import command_lines, next_step, usage
from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.cases.hold_out import hold_out
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.volumes.prediction import Prediction
from mtf_imaging.layout import Layout


def flags_of(line: str):
    """Returns the parsed flags of `mtf-imaging COMMAND ...`."""
    words = shlex.split(line)
    assert words[0] == "mtf-imaging"
    return usage.parse_flags(words[1], load(words[1]), words[2:])


def last_line(capsys) -> str:
    (line,) = re.findall(r"^Next: (.*)$", capsys.readouterr().out, re.MULTILINE)
    return line


def run(line: str, *more: str) -> None:
    """Runs a suggested line, with more flags that make it short."""
    gin.clear_config()
    assert main.main([*shlex.split(line)[1:], *more]) == 0


@pytest.mark.parametrize(("kind", "job"), [("scenes", "deeplab_scenes"), ("objects", "retinanet_objects")])
def test_phantom_suggests_training_on_photos(tmp_path, monkeypatch, capsys, kind, job):
    monkeypatch.chdir(tmp_path)
    run(f"mtf-imaging phantom --kind {kind} --output_dir photos --num_cases 4")
    values = flags_of(last_line(capsys))
    assert (values.data_dir, values.eval_dir, values.model_dir) == ("photos", "photos", "run")
    assert values.gin_file == [job]


@pytest.mark.slow
def test_a_chain_of_suggested_commands_leads_from_synthetic_cases_to_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("mtf-imaging phantom --output_dir 'my cases' --num_cases 3")
    line = last_line(capsys)
    assert line == "mtf-imaging convert --input_dir 'my cases' --output_dir records --resolution 64"
    run(line, "--resolution", "16")
    line = last_line(capsys)
    assert line == (
        "mtf-imaging train --data_dir records --model_dir run --gin_file unet3d_demo --fold 0 --num_folds 3"
    )
    run(line, "--num_steps", "1", "--gin.UNet3D.depth=2", "--dry_run")
    dry = last_line(capsys)
    assert dry == (
        "mtf-imaging train --data_dir records --fold 0 --num_folds 3 --model_dir run --num_steps 1 "
        "--gin_file unet3d_demo --gin_param UNet3D.depth=2"
    )
    run(dry)
    line = last_line(capsys)
    assert line == "mtf-imaging evaluate --model_dir run --input_dir 'my cases' --output_dir evaluation --fold 0"
    run(line)
    assert last_line(capsys) == "open evaluation/report.html in a browser, or run tensorboard --logdir run"
    assert Path("evaluation/report.html").is_file()
    run("mtf-imaging predict --model_dir run --input 'my cases' --output segmentations")
    line = last_line(capsys)
    assert line == ("mtf-imaging score --reference_dir 'my cases' --prediction_dir segmentations --output_dir scores")
    run(line)
    assert last_line(capsys) == "open scores/report.html in a browser"
    assert Path("scores/report.html").is_file()


@pytest.mark.slow
def test_a_held_out_folder_is_found_beside_its_records(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("mtf-imaging phantom --output_dir cases --num_cases 2")
    hold_out(Path("cases"), Path("train"), Path("held_out"))
    run("mtf-imaging convert --input_dir train --output_dir records --resolution 16")
    capsys.readouterr()
    run("mtf-imaging convert --input_dir held_out --output_dir held_out_records --resolution 16")
    line = last_line(capsys)
    assert line == (
        "mtf-imaging train --data_dir records --model_dir run --gin_file unet3d_demo --eval_dir held_out_records"
    )
    values = flags_of(line)
    assert next_step.after_train(values, fold=None, is_records=True) == (
        "mtf-imaging evaluate --model_dir run --input_dir held_out --output_dir evaluation"
    )
    assert next_step.after_train(values, fold=None, is_records=False) == "tensorboard --logdir run"
    Path("held_out/volume-1.nii.gz").unlink()
    Path("held_out/volume-1.nii.gz").write_bytes(b"another volume")
    assert next_step.after_train(values, fold=None, is_records=True) == "tensorboard --logdir run"


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [
        ("x:13,y:16,z:9", "train --data_dir records --model_dir run --gin_file unet3d_demo"),
        pytest.param("176", "explain --data_dir records", marks=pytest.mark.slow),
    ],
)
def test_the_resolution_of_records_decides_what_comes_next(tmp_path, monkeypatch, capsys, resolution, expected):
    monkeypatch.chdir(tmp_path)
    run("mtf-imaging phantom --output_dir cases --num_cases 1")
    capsys.readouterr()
    run(f"mtf-imaging convert --input_dir cases --output_dir records --resolution {resolution}")
    line = last_line(capsys)
    assert line == f"mtf-imaging {expected}"
    flags_of(line)


def test_a_prediction_without_references_is_shown_in_a_viewer(monkeypatch):
    planned = [(Case("0", Path("a b.nii.gz"), None, ""), Path("c.nii.gz"))]
    images = Prediction(Path("run"), None, Inference())
    paths = Path("a b.nii.gz"), Path("c.nii.gz")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    line = next_step.after_predict(images.next_step(planned, *paths))
    assert line.startswith("open c.nii.gz over 'a b.nii.gz' in a NIfTI viewer")
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/itksnap")
    assert next_step.after_predict(images.next_step(planned, *paths)) == "itksnap -g 'a b.nii.gz' -s c.nii.gz"


TWO = Layout.parse("rows:2", "x:rows")


@pytest.mark.parametrize(
    ("line", "free", "expected"),
    [
        ("explain --resolution 16", 1e12, "search --num_devices 4 --hardware h200 --resolution 16"),
        (
            "explain --resolution 16 --mesh_shape rows:2 --layout x:rows --gin.UNet3D.depth=2",
            1e12,
            "bench --gin_param UNet3D.depth=2 --resolution 16 --setup / --setup rows:2/x:rows",
        ),
        (
            "explain --model_dir run --data_dir records --gin_file 2x2",
            0,
            "search --num_devices 2 --hardware h200 --gin_file run/config.gin --gin_file 2x2 --data_dir records",
        ),
        (
            "explain --resolution 16 --hardware a100 --num_devices 8",
            1e12,
            "search --num_devices 8 --hardware a100 --resolution 16",
        ),
        (
            "explain --resolution 16 --hardware a100 --price_per_hour 2.5",
            1e12,
            "search --num_devices 4 --hardware a100 --price_per_hour 2.5 --resolution 16",
        ),
    ],
)
def test_after_explain(monkeypatch, line, free, expected):
    values = flags_of(f"mtf-imaging {line}")
    layout = TWO if "2x2" in line or "rows" in line else Layout.parse("", "")
    plan = SimpleNamespace(layout=layout, processors=layout.processors, memory=1e6)
    monkeypatch.setattr(next_step, "_free_memory", lambda: free)
    found = next_step.after_explain(values, SimpleNamespace(plan=plan, hardware=values.hardware))
    flags_of(found)
    assert found == f"mtf-imaging {expected}"


@pytest.mark.parametrize(
    ("line", "recompute", "size", "expected"),
    [
        (
            "--data_dir records",
            None,
            None,
            "train --data_dir records --model_dir run --mesh_shape rows:2 --layout x:rows",
        ),
        (
            "--resolution 32 --batch_size 2 --gin_file unet3d_lits",
            "UNet3D.recompute",
            None,
            "explain --hardware h200 --gin_file unet3d_lits --resolution 32 --batch_size 2 --gin_param "
            "UNet3D.recompute=True --mesh_shape rows:2 --layout x:rows",
        ),
        (
            "--resolution 32 --price_per_hour 2.5",
            None,
            None,
            "explain --hardware h200 --price_per_hour 2.5 --resolution 32 --mesh_shape rows:2 --layout x:rows",
        ),
        ("--max_resolution", None, 48, "explain --hardware h200 --resolution 48 --mesh_shape rows:2 --layout x:rows"),
    ],
)
def test_after_search(line, recompute, size, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = flags_of(f"mtf-imaging search --num_devices 2 --hardware h200 {line}")
    found = next_step.after_search(values, SimpleNamespace(layout=TWO), recompute, size)
    flags_of(found)
    assert found == f"mtf-imaging {expected}"
    assert next_step.after_search(values, None, None) is None


def test_after_bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setups = [(None, TWO), (2.0, Layout.parse("", "")), (1.0, TWO)]
    rows = [SimpleNamespace(seconds=seconds, setup=SimpleNamespace(layout=layout)) for seconds, layout in setups]
    values = flags_of("mtf-imaging bench --data_dir records --model_dir run")
    line = next_step.after_bench(values, rows)
    assert line == (
        "mtf-imaging train --data_dir records --model_dir run --gin_file run/config.gin --mesh_shape rows:2 "
        "--layout x:rows"
    )
    flags_of(line)
    values = flags_of("mtf-imaging bench --resolution 16")
    assert next_step.after_bench(values, rows[:2]) == "mtf-imaging explain --resolution 16 --mesh_shape '' --layout ''"
    assert next_step.after_bench(values, rows[:1]) is None


def test_the_other_commands_name_a_command_that_parses(tmp_path):
    flags_of(next_step.after_demo(tmp_path / "my demo" / "model", tmp_path / "my data"))
    flags_of(next_step.after_parameters(["unet3d.UNet3D.base_filters"]))
    assert next_step.after_parameters(["train.seed"]) == "mtf-imaging train --help"


def test_a_command_that_another_command_runs_names_no_next_step(monkeypatch, capsys):
    next_step.show("a command")
    next_step.show(None)
    assert capsys.readouterr().out == "Next: a command\n"
    monkeypatch.setenv(next_step.QUIET, "1")
    next_step.show("a command")
    assert capsys.readouterr().out == ""


def test_programs_outside_of_the_path_are_named_by_their_files(tmp_path, monkeypatch):
    for name in ("mtf-imaging", "tensorboard"):
        (tmp_path / name).touch()
    monkeypatch.setattr(command_lines.sys, "argv", [str(tmp_path / "mtf-imaging")])
    monkeypatch.setenv("PATH", "")
    assert next_step.after_parameters([]) == f"{tmp_path}/mtf-imaging train --help"
    values = flags_of("mtf-imaging train --data_dir records --model_dir run")
    assert next_step.after_train(values, fold=None, is_records=False) == f"{tmp_path}/tensorboard --logdir run"
