"""Output folders are cleaned of the files of ended processes, and of no others."""

import os
import subprocess
import sys

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.partial import is_partial, partial_path
from tests.leftovers import ended_path

SINGLE = """
import sys
from pathlib import Path
from mtf_imaging.files.atomic import atomic_path
with atomic_path(Path(sys.argv[1]) / "segmentation-9.nii.gz") as temporary:
    temporary.write_text("whole")
    print("writing", flush=True)
    sys.stdin.readline()
"""


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if is_partial(path))


def test_the_named_folders_are_cleaned_at_the_start_and_at_the_end(tmp_path):
    folders = tmp_path, tmp_path / "predictions", tmp_path / "others"
    for folder in folders:
        folder.mkdir(exist_ok=True)
        ended_path(folder / "report.html").touch()
        partial_path(folder / "running.html").touch()
    names = [folder / partial_path(folder / "running.html").name for folder in folders]
    kept = sorted(str(path.relative_to(tmp_path)) for path in [*names, ended_path(folders[2] / "report.html")])
    with writing_to(tmp_path, "predictions", "pictures"):
        assert left(tmp_path) == kept
        write_bytes(tmp_path / "predictions/a.png", b"whole")
        for folder in folders[:2]:  # as a worker that is terminated after an error
            ended_path(folder / "late.html").touch()
    assert left(tmp_path) == kept


def test_they_are_cleaned_after_an_error(tmp_path):
    def write():
        with writing_to(tmp_path):
            write_bytes(tmp_path / "a.png", b"whole")
            ended_path(tmp_path / "b.png").touch()
            raise DataError("a case cannot be used")

    with pytest.raises(DataError):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_single_prediction_can_run_beside_a_prediction_of_a_folder(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", SINGLE, tmp_path]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as single:
        single.stdout.readline()
        with writing_to(tmp_path):
            write_bytes(tmp_path / "segmentation-1.nii.gz", b"whole")
        single.communicate(b"\n")
    assert single.returncode == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "segmentation-1.nii.gz": "whole",
        "segmentation-9.nii.gz": "whole",
    }
