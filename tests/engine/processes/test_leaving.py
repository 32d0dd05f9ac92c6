"""The end of processes whose main thread is blocked."""

import subprocess
import sys

LEAVE = """
import atexit, sys, threading
from mtf_imaging.engine.processes.leaving import leave
atexit.register(print, "an exit handler")
print("output", end="")
threading.Thread(target=leave, args=[7, "a message"]).start()
sys.stdin.read()  # blocks, as the standard input stays open
"""


def test_a_process_leaves_with_its_output_and_without_exit_handlers():
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert (process.stdout.read(), process.stderr.read(), process.wait()) == ("output", "\na message\n", 7)
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
