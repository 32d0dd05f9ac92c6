"""Temporary files of killed writers are deleted by the next writer, and those of all others remain."""

import os
import subprocess
import sys

import pytest

from mtf_imaging.files import partial
from mtf_imaging.files.atomic import atomic_folder, atomic_path, write_bytes
from mtf_imaging.files.partial import (
    is_partial,
    partial_path,
    put_back,
    remove_leftovers,
    remove_leftovers_once,
    replaced_path,
)
from tests.leftovers import ended_path

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
    other = folder / ".partial-000000000000-1-1-report.html"
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


def test_a_process_looks_once_at_a_folder_unless_it_locks_the_folder(tmp_path):
    with atomic_path(tmp_path / "a") as path:
        path.touch()
    kept = leave(tmp_path)
    remove_leftovers_once(tmp_path)
    assert len([*filter(is_partial, tmp_path.iterdir())]) == 5
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a", *kept}


def test_a_process_that_has_the_pid_of_a_killed_one_is_told_from_it(tmp_path):
    ended_path(tmp_path / "a").touch()
    own = partial_path(tmp_path / "a")
    own.touch()
    assert ended_path(tmp_path / "a") != own
    remove_leftovers(tmp_path)
    assert [*tmp_path.iterdir()] == [own]


def test_a_killed_process_whose_parent_has_not_noticed_has_ended(tmp_path):
    """The file of a zombie, whose PID still exists."""
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert len([*tmp_path.iterdir()]) == 2
        remove_leftovers(tmp_path)
        assert not [*tmp_path.iterdir()]


def test_a_process_whose_start_is_hidden_may_still_run(tmp_path, monkeypatch):
    """Linux can hide /proc/PID of other users; without it, only a PID that does not exist has ended."""
    left = ended_path(tmp_path / "a")
    left.touch()
    monkeypatch.setattr(partial, "_start_time", lambda pid: None)
    remove_leftovers(tmp_path)
    assert left.exists()


def test_another_start_of_this_machine_is_another_machine(tmp_path, monkeypatch):
    """PIDs and start times repeat after a restart, and in another container."""
    assert len({path.name.split("-")[1] for path in (partial_path(tmp_path / "a"), ended_path(tmp_path / "a"))}) == 1
    left = ended_path(tmp_path / "a")
    left.touch()
    partial._host.cache_clear()
    monkeypatch.setattr(partial.Path, "read_text", lambda path: f"another start {path}")
    other = partial._host()
    monkeypatch.undo()
    partial._host.cache_clear()
    assert other not in left.name
    assert partial._host() in left.name


def test_what_was_replaced_does_not_come_back_after_its_deletion_has_begun(tmp_path, monkeypatch):
    """Otherwise, a half-deleted folder would get its name back if a user deleted its successor."""

    def kill(_):
        raise KeyboardInterrupt

    old = replaced_path(tmp_path / "record")
    old.mkdir(parents=True)
    (tmp_path / "record").touch()
    with monkeypatch.context() as killed:
        killed.setattr(partial, "remove", kill)
        with pytest.raises(KeyboardInterrupt):
            put_back(old.parent)
    (tmp_path / "record").unlink()
    put_back(old.parent)
    assert not (tmp_path / "record").exists()


def test_a_link_with_a_name_of_a_replacement_is_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/report.html").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.partial-000000000000-1-1.ab").symlink_to(tmp_path / "mine")
    remove_leftovers(tmp_path / "out", is_alone=True)
    assert (tmp_path / "mine/report.html").read_text() == "mine"
    assert not [*(tmp_path / "out").iterdir()]
