"""Functions that may block in C++ code, and the end of processes with such functions."""

import subprocess
import sys
import threading

import pytest

from mtf_imaging.processes import leaving

LEAVE = """
import atexit, sys
from mtf_imaging.processes.leaving import call, is_blocked, leave
atexit.register(print, "an exit handler")
print("output", end="")
try:
    call(sys.stdin.read, 0.01)  # blocks, as the standard input stays open
except TimeoutError:
    if is_blocked():
        leave(7, "a message")
"""


def test_a_call_returns_the_result_or_raises_the_error_of_its_function():
    assert leaving.call(lambda: 3, 60.0) == 3
    with pytest.raises(ZeroDivisionError):
        leaving.call(lambda: 1 // 0, 60.0)
    assert not leaving.is_blocked()


def test_a_call_ends_after_its_time_limit():
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"no result within 0\.01 s"):
        leaving.call(release.wait, 0.01)
    assert leaving.is_blocked()
    release.set()
    leaving._threads[-1].join()
    assert not leaving.is_blocked()


def test_a_process_leaves_with_its_output_and_without_exit_handlers():
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert (process.stdout.read(), process.stderr.read(), process.wait()) == ("output", "\na message\n", 7)
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
