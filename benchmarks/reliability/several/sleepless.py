"""Runs the program with a `time.sleep` that works under libfaketime.

Since Python 3.11, `time.sleep` calls clock_nanosleep, which returns EINVAL under libfaketime 0.9.10.
"""

import runpy
import select
import sys
import time

from benchmarks.reliability.commands import PROGRAM


def sleep(seconds: float) -> None:
    """Sleeps for a number of seconds."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    time.sleep = sleep  # type: ignore[assignment]
    sys.argv = [PROGRAM, *sys.argv[1:]]
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)
