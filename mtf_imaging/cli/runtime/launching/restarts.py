"""Restarts all processes after a failure."""

import os
import sys

from mtf_imaging.cli.runtime.failures import ProgramFailed
from mtf_imaging.cli.runtime.launching.environment import build_environments
from mtf_imaging.cli.runtime.launching.group import STOPPED, run_group
from mtf_imaging.cli.runtime.launching.signals import Signals
from mtf_imaging.cli.runtime.subprocesses import Program
from mtf_imaging.cli.runtime.usage import PROGRAM

_WRONG_COMMAND_LINE = 2


def run_with_restarts(program: Program, num: int, restarts: int, timeout: float | None) -> None:
    """Runs a program in several local processes, and restarts all of them after a failure.

    A wrong command line would fail again, and a user who stops the program wants it to end, so neither causes a
    restart.

    Args:
      program: the program.
      num: number of processes.
      restarts: the maximum number of restarts.
      timeout: seconds after which a process counts as lost, or None for the default.

    Raises:
      MtfImagingError: a process failed or was stopped; a `ProgramFailed`, which has its exit code.
      ConfigError: the program cannot be started.
    """
    with Signals() as signals:
        for restart in range(restarts + 1):
            environments = build_environments({**os.environ, **program.environ}, num, timeout)
            end = run_group(program, environments, signals)
            if end is None:
                return
            is_final = bool(signals.received) or end.returncode in (_WRONG_COMMAND_LINE, *STOPPED)
            if is_final or restart == restarts:
                # A stopped process has reported this itself.
                raise ProgramFailed("" if end.returncode in STOPPED else f"{end}.", end.exit_code)
            print(
                f"{PROGRAM}: {end}; starting all processes again, restart {restart + 1} of {restarts}",
                file=sys.stderr,
                flush=True,
            )
