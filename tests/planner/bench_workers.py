"""Fake workers for tests of the bench, which give fixed answers or die."""

import os
import signal
import sys

GOOD = {
    "build": {"seconds": 1.5, "devices": ["/device:CPU:0"], "held": 100, "moved": 600},
    "first": {"peak": 4000, "loss": 2.0, "gradient_norm": 5.0},
    "second": {"tensors": 2000},
    "step": {"seconds": 0.25},
}


def _serve(connection, change):
    while True:
        try:
            word, arguments = connection.recv()
        except EOFError:
            return
        connection.send(change(word, dict(GOOD[word]), arguments))


def good(connection, log, make):
    _serve(connection, lambda word, answer, arguments: answer)


def wrong(connection, log, make):
    """Returns a different loss."""
    _serve(connection, lambda word, answer, arguments: answer | ({"loss": 2.1} if word == "first" else {}))


def short_of_memory(connection, log, make):
    """Reports that the memory is too small."""
    _serve(connection, lambda word, answer, arguments: {"error": "out of memory: so it is.\n  Fix: ..."})


def killed(connection, log, make):
    """Dies of SIGKILL in the middle of a step, as if the system were out of memory."""

    def die(word, answer, arguments):
        if word == "step":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    _serve(connection, die)


def failing(connection, log, make):
    """Raises an unexpected exception."""
    sys.stderr = open(log, "a")  # noqa: SIM115  multiprocessing writes the traceback there
    raise KeyError("bug")
