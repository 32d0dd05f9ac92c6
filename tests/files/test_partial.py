"""Temporary files of killed writers are deleted by the next writer."""

import os
import subprocess
import sys

from mtf_imaging.files.atomic import atomic_folder, atomic_path, write_bytes
from mtf_imaging.files.partial import is_partial, partial_path, remove_leftovers

KILLED = """
import os, sys
from pathlib import Path
from mtf_imaging.files.partial import partial_path
folder = Path(sys.argv[1])
partial_path(folder / "table.csv").write_text("half")
partial_path(folder / "model").mkdir()
(partial_path(folder / "model") / "weights").write_text("half")
os.kill(os.getpid(), 9)
"""


def leave(folder):
    """Leaves a file and a folder of a killed process, and files that look like those of others."""
    subprocess.run([sys.executable, "-c", KILLED, folder], check=False)
    own = partial_path(folder / "own.csv")
    own.write_text("of this process, which runs")
    other = folder / f".partial-00000000-{os.getpid()}-report.html"
    other.write_text("of another machine")
    (folder / ".partial-notes").write_text("of a user")
    assert len([*filter(is_partial, folder.iterdir())]) == 5
    return {own.name, other.name, ".partial-notes"}


def test_the_next_file_deletes_them(tmp_path):
    kept = leave(tmp_path)
    write_bytes(tmp_path / "report.html", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", *kept}


def test_the_next_folder_deletes_them(tmp_path):
    kept = leave(tmp_path)
    with atomic_folder(tmp_path / "model"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"model", *kept}


def test_a_process_looks_once_at_a_folder(tmp_path):
    with atomic_path(tmp_path / "a") as path:
        path.touch()
    leave(tmp_path)
    remove_leftovers(tmp_path)
    assert len([*filter(is_partial, tmp_path.iterdir())]) == 5
