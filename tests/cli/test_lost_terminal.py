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

from tests import waiting
from tests.cli.test_cluster import data, job  # noqa: F401  a fixture

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
    """Yields the two sides of a terminal, which are closed at the end."""
    master, slave = pty.openpty()
    try:
        yield master, slave
    finally:
        for side in (master, slave):
            with contextlib.suppress(OSError):
                os.close(side)


def start(slave, *words):
    """Starts a program whose only terminal is `slave`."""

    def prepare():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

    words = [sys.executable, *map(str, words)]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, preexec_fn=prepare)
    os.close(slave)
    return process


def test_output_to_a_lost_terminal_is_dropped(tmp_path):
    os.mkfifo(tmp_path / "end")
    with terminal() as (master, slave), waiting.killed_at_end(start(slave, "-c", PRINTS, tmp_path / "end")) as process:
        assert b"ready" in os.read(master, 100)
        os.close(master)
        (tmp_path / "end").write_text("")
        assert waiting.wait_for_end(process) == 5


@pytest.mark.slow
@pytest.mark.parametrize("num", [1, 2])
def test_a_training_saves_a_checkpoint_when_its_terminal_is_lost(data, tmp_path, num):  # noqa: F811
    words = [*job(data, "float32"), f"--model_dir={tmp_path / 'run'}", "--num_steps=100000"]
    words += ["--gin.train.checkpoint_every=1000000"]
    if num > 1:
        words = ["launch", f"--num_processes={num}", "--", *words, f"--mesh_shape=rows:{num}", "--layout=x:rows"]
    losses = tmp_path / "run/losses.csv"
    with terminal() as (master, slave):
        reader = os.dup(master)
        with waiting.killed_at_end(start(slave, "-m", "mtf_imaging.cli.main", *words)) as process:
            os.close(master)
            os.set_blocking(reader, False)

            def has_trained():
                with contextlib.suppress(BlockingIOError):
                    os.read(reader, 1 << 16)
                return losses.is_file() and losses.read_text().count("\n") > 3

            waiting.wait_until(has_trained, "three steps", [process], [losses])
            os.close(reader)
            assert waiting.wait_for_end(process, logs=[losses]) == 75
    assert list((tmp_path / "run").glob("ckpt-*.index"))
