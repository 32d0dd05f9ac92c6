"""Worker processes: results, errors and log records equal those of one process, and workers end with their parent."""

import errno
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.workers import cpu_time, default_workers, in_parallel
from tests import waiting

ROOT = Path(__file__).parents[2]


def square(number):
    logging.getLogger("mtf_imaging.test").warning("%d squared", number)
    if number == 3:
        raise DataError("3 cannot be squared. Fix: 4.", settings=["number"])
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number, os.getpid()


@pytest.mark.parametrize("workers", [1, 2])
def test_results_and_log_records(workers, caplog):
    found = dict(in_parallel(square, [1, 2, 4, 5], workers))
    assert {number: result for number, (result, _) in found.items()} == {1: 1, 2: 4, 4: 16, 5: 25}
    assert sorted(record.getMessage() for record in caplog.records) == [f"{n} squared" for n in (1, 2, 4, 5)]
    assert (os.getpid() in {pid for _, pid in found.values()}) == (workers == 1)


def safe_path(_):
    return sys.flags.safe_path


def test_workers_do_not_look_for_modules_in_the_working_folder(monkeypatch):
    """`tests/cli/test_foreign_folder.py` has such modules."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    for before in (None, "yes"):
        if before:
            monkeypatch.setenv("PYTHONSAFEPATH", before)
        assert dict(in_parallel(safe_path, [1, 2], 2)) == {1: True, 2: True}
        assert os.environ.get("PYTHONSAFEPATH") == before


def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_cpu_time_includes_running_and_ended_workers():
    began, own = cpu_time(), time.process_time()

    def of_workers():
        return cpu_time() - began - (time.process_time() - own)

    running = [of_workers() for _ in in_parallel(compute, [0.5, 0], 2)]
    assert running[1] > 0.5
    assert of_workers() >= running[1] - 0.05


@pytest.mark.parametrize("workers", [1, 2])
def test_log_records_before_an_error_are_logged(workers, caplog):
    with pytest.raises(DataError, match=r"^3 cannot be squared\. Fix: 4\.$") as error:
        list(in_parallel(square, [3, 1], workers))
    assert error.value.settings == ("number",)
    assert "3 squared" in caplog.text


def test_a_killed_worker_is_reported():
    with pytest.raises(DataError) as error:
        list(in_parallel(square, [13, 13], 2))
    assert str(error.value) == (
        "a worker process was killed while 13 was processed, possibly for lack of memory. Fix: use fewer workers."
    )
    assert error.value.settings == ("workers",)


def test_cores_and_memory_limit_the_number_of_workers():
    assert default_workers(1) == len(os.sched_getaffinity(0))
    assert default_workers(1 << 60) == 1


# Python handles Ctrl-C only if the signal is not already ignored, as in background jobs of a shell.
LISTEN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
SLEEP = (
    LISTEN
    + """
import os, sys, time
from pathlib import Path
from mtf_imaging.files.workers import in_parallel

def sleep(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(3600)

if __name__ == "__main__":
    list(in_parallel(sleep, sys.argv[1:], 2))
"""
)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent(tmp_path, how):
    (tmp_path / "sleep.py").write_text(SLEEP)
    files = [tmp_path / "a", tmp_path / "b"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, tmp_path / "sleep.py", *files]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    with waiting.killed_at_end(process):
        pids = [int(waiting.wait_for_file(file, [process])) for file in files]
        process.send_signal(how)
        waiting.wait_for_end(process)
    waiting.wait_until(lambda: not any(map(waiting.is_running, pids)), "the end of the workers")


BEGIN = (
    LISTEN
    + """
import os, sys, time
from mtf_imaging.files.workers import in_parallel

if __name__ != "__main__":  # the first action of a worker
    os.write(2, b"import\\n")
    time.sleep(3600)

if __name__ == "__main__":
    try:
        list(in_parallel(print, "ab", 2))
    except KeyboardInterrupt:
        sys.exit(130)
"""
)


def test_ctrl_c_while_workers_start_shows_no_traceback(tmp_path):
    (tmp_path / "begin.py").write_text(BEGIN)
    command = [sys.executable, tmp_path / "begin.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    with waiting.killed_at_end(process):
        assert process.stderr.readline() == process.stderr.readline() == b"import\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert waiting.communicate(process) == (130, None, b"")


TERMINATED = """
import os, signal, sys, time
from multiprocessing import synchronize
from mtf_imaging.files.workers import in_parallel
from mtf_imaging.errors import DataError

if __name__ != "__main__":
    take = synchronize.SemLock.__enter__
    def take_and_be_terminated(lock):
        taken = take(lock)
        if sys.argv[1] == "sending" and sys._getframe(1).f_code.co_name == "put":
            os.kill(os.getpid(), signal.SIGTERM)
        return taken
    synchronize.SemLock.__enter__ = take_and_be_terminated

def work(path):
    if sys.argv[1] == "working":
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            print("still running")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # the pool terminates its workers a second time
            print("cleaned up", flush=True)
    if sys.argv[1] == "deleting":
        Deleted()  # Python reports an error in `__del__` and continues
    if sys.argv[1] == "waiting":  # one worker waits for more work when the other is killed
        meeting = os.path.join(os.path.dirname(__file__), "meeting")
        if path == "a":
            while not os.path.exists(meeting):
                time.sleep(0.01)
        else:
            open(meeting, "w").close()
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
    return path

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

if __name__ == "__main__":
    try:
        print([result for _, result in in_parallel(work, sys.argv[2:], 2)])
    except DataError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("when", "items", "shown"),
    [
        ("sending", "a", ["['a']"]),  # while the worker has locked the shared queue
        (
            "working",
            "a",
            ["cleaned up", "a worker process was terminated while it processed a. Fix: run the command again."],
        ),
        ("deleting", "a", ["['a']"]),
        (
            "waiting",
            "ab",
            ["a worker process was killed while b was processed, possibly for lack of memory. Fix: use fewer workers."],
        ),
    ],
)
def test_a_terminated_worker_does_not_block_the_others(tmp_path, when, items, shown):
    (tmp_path / "terminated.py").write_text(TERMINATED)
    command = [sys.executable, tmp_path / "terminated.py", when, *items]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=waiting.LIMIT)
    assert done.stdout.splitlines() == shown
    assert done.stderr == ""


@pytest.mark.parametrize(
    "error", [OSError(30, "Read-only file system"), ImportError("no sem_open"), NotImplementedError("none")]
)
def test_without_semaphores_the_work_continues_in_one_process(error, monkeypatch, caplog):
    def fail(*_):
        raise error

    monkeypatch.setattr("mtf_imaging.files.workers._Pool", fail)
    found = dict(in_parallel(square, [1, 2], 2))
    assert found == {1: (1, os.getpid()), 2: (4, os.getpid())}
    assert re.search(
        r"/dev/shm: .* cannot be used \(.+\)\. The work continues in one process\. Fix: .*workers to 1", caplog.text
    )


def test_too_many_open_files_are_an_error(monkeypatch):
    def fail(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("mtf_imaging.files.workers._Pool", fail)
    with pytest.raises(OSError, match="Too many open files"):
        list(in_parallel(square, [1, 2], 2))
