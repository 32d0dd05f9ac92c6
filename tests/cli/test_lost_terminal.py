"""Lost terminals, as after a broken SSH connection: a pseudo-terminal whose other side is closed."""

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios

import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from tests import waiting
from tests.jobs.launched import train_command

PRINTS = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from mtf_imaging.cli.runtime import streams
streams.prepare()
print("ready", flush=True)
with open(sys.argv[1]) as end:  # a named pipe
    end.read()
for stream in (sys.stdout, sys.stderr):
    print("lost", file=stream, flush=True)
sys.exit(5)
"""


@contextlib.contextmanager
def terminal():
    """Yields the two sides of a terminal as files, which are closed at the end.

    A file can be closed twice. A second `os.close` would close a file that another thread has opened in the meantime.
    """
    master, slave = pty.openpty()
    with open(master, "r+b", buffering=0) as ours, open(slave, "r+b", buffering=0) as theirs:
        yield ours, theirs


def start(slave, *words):
    """Starts a program whose only terminal is `slave`."""

    def prepare():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

    words = [sys.executable, *map(str, words)]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, preexec_fn=prepare)
    slave.close()
    return process


def test_output_to_a_lost_terminal_is_dropped(tmp_path):
    os.mkfifo(tmp_path / "end")
    with terminal() as (master, slave), waiting.killed_at_end(start(slave, "-c", PRINTS, tmp_path / "end")) as process:
        assert b"ready" in master.read(100)
        master.close()
        (tmp_path / "end").write_text("")
        assert waiting.wait_for_end(process) == 5


@pytest.mark.slow
@pytest.mark.parametrize("num", [1, 2])
def test_a_training_saves_a_checkpoint_when_its_terminal_is_lost(tmp_path, num):
    write_phantom(tmp_path / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=tmp_path / "cases", output_dir=tmp_path / "records", **options)
    words = train_command(tmp_path, tmp_path / "run", 1000000, "--gin.train.checkpoint_every=1000000")
    if num > 1:
        words = ["launch", f"--num_processes={num}", "--", *words]
    losses = tmp_path / "run/losses.csv"
    with terminal() as (master, slave):
        reader = os.dup(master.fileno())
        with waiting.killed_at_end(start(slave, "-m", "mtf_imaging.cli.main", *words)) as process:
            master.close()
            os.set_blocking(reader, False)

            def has_trained():
                with contextlib.suppress(BlockingIOError):
                    os.read(reader, 1 << 16)
                return losses.is_file() and losses.read_text().count("\n") > 3

            waiting.wait_until(has_trained, "three steps", [process], [losses])
            os.close(reader)
            assert waiting.wait_for_end(process, logs=[losses]) == 75
    assert list((tmp_path / "run").glob("ckpt-*.index"))
