"""What convert suggests: a plan for real data, training as planned, and the demo jobs for phantoms."""

import dataclasses
import re
from pathlib import Path

import gin
import pytest

from mtf_imaging.cli import main
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.phantom.file_formats import is_phantom
from tests.jobs.test_described import ORGANS, write_cases

PLAN = ["plan", "--data_dir", "cases", "--num_devices", "1", "--hardware", "h200"]
SWAPPED = Description(("CT",), {"cyst": 1, "spleen": 2}, {"cyst": (1,), "spleen": (2,)})


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def next_line(capsys, *words):
    gin.clear_config()
    capsys.readouterr()
    assert main.main([*words]) == 0
    (line,) = re.findall(r"^Next: mtf-imaging (.*)$", capsys.readouterr().out, re.MULTILINE)
    return line


def convert(capsys, input_dir, output_dir, *options):
    words = "--input_dir", input_dir, "--output_dir", output_dir, "--workers", "1"
    return next_line(capsys, "convert", *words, *(options or ("--resolution", "8")))


def named(folder, first, description=ORGANS, number=2):
    """Writes cases whose names begin with a letter, so that two folders have different cases."""
    write_cases(Path(folder), description, number)
    for path in Path(folder).glob("*/case_*"):
        path.rename(path.with_name(f"{first}{path.name}"))


@pytest.mark.parametrize("description", [ORGANS, dataclasses.replace(ORGANS, channels=("MR",), intensities=())])
def test_other_data_than_phantoms_are_planned_first(capsys, description):
    write_cases(Path("cases"), description, 1)
    expected = "plan --data_dir cases --num_devices 1 --hardware h200"
    assert convert(capsys, "cases", "records") == expected
    Path("plan.gin").write_text("# a plan of other data\n")
    assert convert(capsys, "cases", "records") == f"{expected} --output plan_2.gin"
    Path("sizes.csv").write_text("case,x,y,z\nother,1,1,1\n")
    line = convert(capsys, "cases", "records", "--resolution", "8", "--spacing_csv", "sizes.csv")
    assert line == f"{expected} --output plan_2.gin --spacing_csv sizes.csv"


@pytest.mark.slow
def test_a_planned_conversion_leads_to_the_planned_training(capsys):
    named("cases", "a")
    convert(capsys, "cases", "records")
    line = next_line(capsys, *PLAN)
    assert line.startswith("convert --input_dir cases --output_dir records_2 --spacing 2,2,2 --resolution ")
    Path("run").mkdir()
    train = "train --data_dir records_2 --model_dir run_2 --gin_file plan.gin"
    assert next_line(capsys, *line.split()) == f"{train} --fold 0 --num_folds 2"
    named("held_out", "b", number=1)
    options = line.split()[line.split().index("--spacing") :]
    assert convert(capsys, "held_out", "held_out_records", *options) == f"{train} --eval_dir held_out_records"
    assert convert(capsys, "cases", "records") == (
        "plan --data_dir cases --num_devices 1 --hardware h200 --output plan_2.gin"
    )
    Path("damaged.gin").write_bytes(b"\xff")
    Path("cut.gin").write_text("#   mtf-imaging convert --input_dir 'cases\n")
    assert next_line(capsys, *line.split()) == f"{train} --eval_dir held_out_records"


@pytest.mark.slow
@pytest.mark.parametrize(("description", "is_pair"), [(ORGANS, True), (SWAPPED, False)])
def test_held_out_records_need_the_same_description(capsys, description, is_pair):
    named("cases", "a", number=2)
    line = next_line(capsys, *PLAN)
    next_line(capsys, *line.split())
    named("others", "b", description, number=1)
    options = line.split()[line.split().index("--spacing") :]
    line = convert(capsys, "others", "other_records", *options)
    assert ("--eval_dir other_records" in line) == is_pair
    assert is_pair or line.startswith("plan --data_dir others")


@pytest.mark.parametrize(("kind", "job"), [("large_lesions", "unet3d_demo"), ("brain", "unet3d_brain")])
def test_phantoms_keep_their_jobs(capsys, kind, job):
    write_phantom("cases", 1, seed=1, kind=kind)
    assert all(map(is_phantom, Path("cases").glob("**/*.nii.gz")))
    line = convert(capsys, "cases", "records")
    assert line == f"train --data_dir records --model_dir run --gin_file {job}"


def test_other_files_are_no_phantoms(tmp_path):
    write_cases(tmp_path / "cases", ORGANS, 1)
    assert not is_phantom(next(tmp_path.glob("cases/imagesTr/*")))
    (tmp_path / "text.nii.gz").write_text("text")
    assert not is_phantom(tmp_path / "text.nii.gz")
    assert not is_phantom(tmp_path / "missing.nii.gz")
