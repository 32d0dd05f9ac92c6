"""Waits of tests: they end with the event, with the awaited process, or without progress."""

import os
import subprocess
import sys
import threading
import time

import pytest

from tests import waiting

BUSY = "print(flush=True)\nwhile True: pass"
IDLE = "import time\nprint(flush=True)\ntime.sleep(3600)"


@pytest.fixture
def short(monkeypatch):
    """Shortens all times."""
    monkeypatch.setattr(waiting, "_EVERY", 0.05)
    monkeypatch.setattr(waiting, "_WORK", 0.05)


@pytest.fixture
def start():
    """Returns a function that starts a Python program, and returns the process when it has begun."""
    processes = []

    def start(program):
        processes.append(
            subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
        )
        processes[-1].stdout.readline()
        return processes[-1]

    yield start
    for process in processes:
        with waiting.killed_at_end(process):
            pass


def test_a_wait_returns_the_value_of_the_condition():
    values = [None, 0, "there"]
    assert waiting.wait_until(lambda: values.pop(0), "a value") == "there"


def test_a_wait_fails_when_the_process_has_ended(start, tmp_path):
    (tmp_path / "log").write_text("its last words")
    process = start("raise SystemExit(7)")
    with pytest.raises(AssertionError) as error:
        waiting.wait_until(lambda: False, "a file", [process], [tmp_path / "log"], report=lambda: "the report")
    assert str(error.value) == (
        "waiting for a file: the process has ended with exit code 7.\n"
        f"--- {tmp_path / 'log'}\nits last words\nthe report"
    )


def test_what_a_process_does_last_counts(start, tmp_path):
    process = start(f"open({str(tmp_path / 'a')!r}, 'w').write('text')")
    assert waiting.wait_for_end(process) == 0
    assert waiting.wait_for_file(tmp_path / "a", [process]) == "text"


def test_a_wait_fails_without_progress(start, short):
    with pytest.raises(AssertionError, match=r"^waiting for an event: no progress for 0\.5 s\.$"):
        waiting.wait_until(lambda: False, "an event", [start(IDLE)], patience=0.5)


@pytest.mark.parametrize("program", [BUSY, f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])"])
def test_the_cpu_time_of_a_process_and_its_children_extends_a_wait(start, short, monkeypatch, program):
    monkeypatch.setattr(waiting, "LIMIT", 4.0)
    with pytest.raises(AssertionError, match=r"^waiting for an event: no end after 4 s\.$"):
        waiting.wait_until(lambda: False, "an event", [start(program)], patience=2.0)


def test_a_log_that_grows_extends_a_wait(start, short, tmp_path):
    log, began = tmp_path / "log", time.monotonic()

    def grow():
        if time.monotonic() - began < 3.0:
            with log.open("a") as file:
                file.write("x")
        return False

    with pytest.raises(AssertionError, match=r"no progress for 1 s"):
        waiting.wait_until(grow, "an event", [start(IDLE)], [log], patience=1.0)
    assert time.monotonic() - began > 3.0


def test_the_output_of_a_process():
    process = subprocess.Popen([sys.executable, "-c", "print('out')\nraise SystemExit(3)"], stdout=subprocess.PIPE)
    assert waiting.communicate(process) == (3, b"out\n", None)


def test_the_cpu_time_from_both_sources():
    def use():
        end = time.thread_time() + 1.1
        while time.thread_time() < end:
            pass

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    pid = os.getpid()
    for times in (waiting._proc_times(), waiting._ps_times()):
        parent, seconds = times[pid]
        assert parent == os.getppid()
        assert 1 <= seconds < time.process_time() + sum(os.times()[2:4]) + 2
    assert waiting.is_running(pid)
