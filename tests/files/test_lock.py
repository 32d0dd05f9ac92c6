"""One writer a folder."""

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
from mtf_imaging.jobs import run as run_folder

HOLD = """
import sys, time
from mtf_imaging.files import lock

with lock.held(sys.argv[1]):
    print(flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_second_run_is_refused_until_the_first_is_killed(holder, tmp_path):
    folder = tmp_path / "run"
    process = f"process {holder.pid} on {socket.gethostname()}"
    text = f"another run is writing to this folder ({process}). Fix: wait until that run ends"
    with pytest.raises(ConfigError) as error, run_folder.held(folder):
        pass
    assert text in str(error.value)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (folder / lock.NAME).is_file()  # left behind, and means nothing
    with run_folder.held(folder):
        assert (folder / lock.NAME).read_text() == f"process {os.getpid()} on {socket.gethostname()}"
    assert list(folder.iterdir()) == []


def test_it_is_refused_before_anything_is_prepared_and_a_dry_run_is_not(holder, tmp_path, monkeypatch, capsys):
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


def test_a_folder_is_as_it_was_when_nothing_came_of_a_run(tmp_path):
    with pytest.raises(OSError, match="nothing"), lock.held(tmp_path / "new"):
        raise OSError("nothing")
    assert not (tmp_path / "new").exists()
    with lock.held(tmp_path / "kept"):
        (tmp_path / "kept/config.gin").touch()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["config.gin"]


def test_a_lock_whose_file_goes_while_it_is_taken_is_taken_again(tmp_path, monkeypatch):
    take, taken = fcntl.flock, []

    def late(file, how):
        take(file, how)
        taken.append(file)
        if len(taken) < 3:  # the holder before removed the file, and for the second one somebody has made another
            (tmp_path / lock.NAME).unlink()
        if len(taken) == 2:
            (tmp_path / lock.NAME).touch()

    monkeypatch.setattr(fcntl, "flock", late)
    with lock.held(tmp_path):
        assert len(taken) == 3
        assert os.path.samestat(os.fstat(taken[-1].fileno()), os.stat(tmp_path / lock.NAME))


def test_a_file_system_without_locks_is_warned_about(tmp_path, monkeypatch, caplog):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with caplog.at_level(logging.WARNING), lock.held(tmp_path):
        assert "has no locks (No locks available), so two runs can write to this folder at once" in caplog.text


def test_any_other_failure_is_one(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output error"), lock.held(tmp_path):
        pass


def test_a_system_without_such_locks_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(ConfigError, match="Fix: on Windows, use WSL 2"), run_folder.held(tmp_path):
        pass
    with lock.held(tmp_path):  # what can do without goes on
        pass
