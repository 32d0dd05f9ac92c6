"""Ctrl-C at any moment: the exit code 130, one line and no traceback."""

import signal
import subprocess
import sys

import pytest

HEADER = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore it
from mtf_imaging.cli import main
from mtf_imaging.cli.runtime import interrupts
interrupts.SAME_REQUEST = 0.0
def ctrl_c():
    signal.raise_signal(signal.SIGINT)
def run_as(function):
    from mtf_imaging.cli import dispatch
    dispatch._dispatch = function
    sys.argv = ["mtf-imaging", "plan"]
    sys.exit(main.main())
"""
ONE = """
def dispatch(argv):
    ctrl_c()
"""
TWICE = """
def dispatch(argv):
    try:
        ctrl_c()
    finally:
        ctrl_c()
        print("the next line")
"""
AT_EXIT = """
def dispatch(argv):
    atexit.register(ctrl_c)
"""
IN_A_DESTRUCTOR = """
class Held:
    def __del__(self):
        ctrl_c()
def dispatch(argv):
    Held()
    print("the next line")
"""
REPLACED = """
def dispatch(argv):
    try:
        ctrl_c()
    except KeyboardInterrupt:
        raise ImportError("initialization failed")  # as pybind11 does
"""
BLOCKED = """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
def dispatch(argv):
    ctrl_c()
    print("the next line")
"""


def end_of(program):
    """Runs a program, and returns its exit code, its output and the lines of its errors."""
    words = [sys.executable, "-c", f"{HEADER}{program}\nrun_as(dispatch)"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip()


@pytest.mark.parametrize("program", [ONE, TWICE, AT_EXIT, IN_A_DESTRUCTOR, REPLACED, BLOCKED])
def test_ctrl_c_ends_a_command_with_one_line(program):
    assert end_of(program) == (130, "", "mtf-imaging: interrupted.")


def test_ctrl_c_twice_within_a_moment_counts_once():
    slow = f"interrupts.SAME_REQUEST = 60.0\n{TWICE}"
    assert end_of(slow) == (130, "the next line\n", "mtf-imaging: interrupted.")


def test_an_ignored_ctrl_c_stays_ignored():
    program = f"signal.signal(signal.SIGINT, signal.SIG_IGN)\n{ONE}"
    assert end_of(program) == (0, "", "")


def test_another_signal_kills_the_process_after_a_line():
    program = "def dispatch(argv):\n    interrupts.end_at_once(signal.SIGTERM)"
    assert end_of(program) == (-signal.SIGTERM, "", "mtf-imaging: SIGTERM: ended at once.")


def test_a_call_in_this_process_restores_the_handler():
    from mtf_imaging.cli.main import main

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["--version"]) == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
