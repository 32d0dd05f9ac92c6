"""Locks: one writer per folder."""

import errno
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mtf_imaging.cli.commands import train
from mtf_imaging.cli.main import main
from mtf_imaging.errors import ConfigError
from mtf_imaging.files import lock
from mtf_imaging.jobs.runs import folder as run_folder

HOLD = """
import sys, time
from mtf_imaging.files import lock

with lock.held(sys.argv[1]):
    print(flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def holder(tmp_path):
    """Starts another process that locks the folder."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_locked_run_deletes_the_unfinished_scores_of_other_machines(tmp_path):
    unfinished = tmp_path / "eval/.partial-000000000000-1-1-scores.csv"
    unfinished.parent.mkdir()
    unfinished.touch()
    (tmp_path / "eval/scores.csv").touch()
    (tmp_path / "run.json").touch()
    with run_folder.held(tmp_path):
        assert [path.name for path in unfinished.parent.iterdir()] == ["scores.csv"]


def test_a_second_run_is_refused_until_the_first_is_killed(holder, tmp_path):
    folder = tmp_path / "run"
    process = f"process {holder.pid} on {socket.gethostname()}"
    text = f"another run is writing to this folder ({process}). Fix: wait until that run ends"
    with pytest.raises(ConfigError) as error, run_folder.held(folder):
        pass
    assert text in str(error.value)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (folder / lock.NAME).is_file()  # a lock file without a lock has no effect
    with run_folder.held(folder):
        assert (folder / lock.NAME).read_text() == f"process {os.getpid()} on {socket.gethostname()}"
    assert list(folder.iterdir()) == []


def test_a_locked_folder_is_refused_before_training_starts_except_for_a_dry_run(holder, tmp_path, monkeypatch, capsys):
    prepared = []
    monkeypatch.setattr(train, "import_tensorflow", lambda: prepared.append("TensorFlow") or _end())
    words = ["train", "--data_dir", "records", "--model_dir", str(tmp_path / "run")]
    assert main(words) == 2
    assert f"process {holder.pid} on " in capsys.readouterr().err
    assert not prepared
    assert main([*words, "--dry_run"]) == 130
    assert prepared


def _end():
    raise KeyboardInterrupt


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("mine")
    with (
        pytest.raises(ConfigError, match=r"run: is a file, not a folder\. Fix: give a folder as model_dir"),
        lock.held(tmp_path / "run", "model_dir"),
    ):
        pass
    assert (tmp_path / "run").read_text() == "mine"


def test_an_empty_new_folder_is_deleted(tmp_path):
    with pytest.raises(OSError, match="nothing"), lock.held(tmp_path / "new"):
        raise OSError("nothing")
    assert not (tmp_path / "new").exists()
    with lock.held(tmp_path / "kept"):
        (tmp_path / "kept/config.gin").touch()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["config.gin"]


def test_locking_is_repeated_if_the_file_was_deleted_meanwhile(tmp_path, monkeypatch):
    take, taken = fcntl.flock, []

    def late(file, how):
        take(file, how)
        taken.append(file)
        if len(taken) < 3:  # the previous process has deleted the file
            (tmp_path / lock.NAME).unlink()
        if len(taken) == 2:  # a third process has created a new file
            (tmp_path / lock.NAME).touch()

    monkeypatch.setattr(fcntl, "flock", late)
    with lock.held(tmp_path):
        assert len(taken) == 3
        assert os.path.samestat(os.fstat(taken[-1].fileno()), os.stat(tmp_path / lock.NAME))


def test_a_warning_about_a_file_system_without_locks(tmp_path, monkeypatch, caplog):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with caplog.at_level(logging.WARNING), lock.held(tmp_path):
        assert "has no locks (No locks available), so two runs can write to this folder at once" in caplog.text


def test_other_errors_of_the_operating_system_are_raised(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output error"), lock.held(tmp_path):
        pass


def test_an_operating_system_without_file_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(ConfigError, match="Fix: on Windows, use WSL 2"), run_folder.held(tmp_path):
        pass
    with lock.held(tmp_path):  # a lock that is not needed is skipped
        pass


def test_a_lock_file_that_is_a_link_is_refused_and_its_target_kept(tmp_path):
    (tmp_path / "photo").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / lock.NAME).symlink_to(tmp_path / "photo")
    with pytest.raises(OSError, match=r"symbolic links.*\.lock"), lock.held(tmp_path / "out"):
        pass
    assert (tmp_path / "photo").read_text() == "mine"
