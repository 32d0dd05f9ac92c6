"""Processes that start together and end together."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mtf_imaging.cli.runtime.failures import INTERRUPTED
from mtf_imaging.cli.runtime.launching.output import Output
from mtf_imaging.cli.runtime.launching.signals import Signals
from mtf_imaging.cli.runtime.subprocesses import Program
from mtf_imaging.errors import ConfigError, reason

GRACE = 10.0  # seconds between the first failure, SIGTERM and SIGKILL
# Exit codes of a process that was asked to stop. Others may still save their files.
STOPPED = (INTERRUPTED, 130)
_TICK = 0.2  # seconds of the longest wait; signals and exiting processes end a wait at once
_PR_SET_PDEATHSIG = 1  # prctl(2)


class End(NamedTuple):
    """The end of a process."""

    index: int
    returncode: int  # of `subprocess.Popen`: negative for a signal

    @property
    def exit_code(self) -> int:
        """The exit code, as a shell reports it."""
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    def __str__(self) -> str:
        if self.returncode >= 0:
            return f"process {self.index} failed with exit code {self.returncode}"
        try:
            return f"process {self.index} was killed by {signal.Signals(-self.returncode).name}"
        except ValueError:  # a real-time signal
            return f"process {self.index} was killed by signal {-self.returncode}"


def run_group(program: Program, environments: Sequence[dict[str, str]], signals: Signals) -> End | None:
    """Runs a program in several processes until all have ended.

    Signals are passed on to every process. When a process fails, the others have time to notice and report it; then
    they are ended. A second signal gives them the same time again.

    Args:
      program: the program.
      environments: the environment variables of each process.
      signals: the signals to this process.

    Returns:
      The end of the first process that failed or was stopped; None if all succeeded. A process that is stopped before
      the others makes them fail.

    Raises:
      ConfigError: the program cannot be started.
    """
    output, processes = Output(), []
    try:
        output.wake_on(signals.wakeup)
        for index, environ in enumerate(environments):
            processes.append(_start(program, environ, index, output))
        ends = _wait(processes, output, signals)
    finally:
        _end(processes)
        output.close()
    unsuccessful = [end for end in ends if end.returncode]
    return next((end for end in unsuccessful if -end.returncode not in signals.received), *unsuccessful[:1] or [None])


def _start(program: Program, environ: dict[str, str], index: int, output: Output) -> subprocess.Popen:
    # A progress bar needs a terminal, so process 0 writes to ours.
    stdout, stderr = (None if index == 0 and os.isatty(target) else subprocess.PIPE for target in (1, 2))
    if stdout is not None:
        # Python buffers kilobytes of output to a pipe, which are lost if a signal kills it.
        environ = {"PYTHONUNBUFFERED": "1", **environ}
    try:
        process = program.start(
            environ,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which passes it on
            preexec_fn=_die_with_parent() if sys.platform == "linux" else None,
        )
    except OSError as error:
        raise ConfigError(
            f"{program.words[0]}: cannot be started: {reason(error)}. Fix: put the interpreter of a script before it, "
            "or in its first line, after #!."
        ) from error
    prefix = f"[{index}] ".encode() if index else b""
    for target, pipe in ((1, process.stdout), (2, process.stderr)):
        if pipe is not None:
            output.add(os.dup(pipe.fileno()), target, prefix)
            pipe.close()
    return process


def _die_with_parent() -> Callable[[], None]:
    """Returns a function for a new process that makes the kernel kill it when this process dies, even by SIGKILL.

    It does not apply to children of the new process.
    """
    libc, parent = ctypes.CDLL(None), os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # this parent died before the call
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare


def _wait(processes: Sequence[subprocess.Popen], output: Output, signals: Signals) -> list[End]:
    """Waits until all processes have ended, and returns the ends in order."""
    ends: list[End] = []
    deadlines: list[tuple[float, int]] | None = None  # times and signals for the processes that outlive a failure
    is_hurried = False
    while len(ends) < len(processes):
        output.copy(_TICK)
        for number in signals.take():
            output.may_be_lost = True
            for process in processes:
                process.send_signal(number)
        known = {end.index for end in ends}
        new = [
            End(index, process.returncode)
            for index, process in enumerate(processes)
            if index not in known and process.poll() is not None
        ]
        ends += sorted(new, key=_likely_cause)
        now = time.monotonic()
        if deadlines is None and any(_is_failure(end, signals) for end in new):
            deadlines = [(now + GRACE, signal.SIGTERM), (now + 2 * GRACE, signal.SIGKILL)]
        if signals.are_repeated and not is_hurried:
            is_hurried = True
            deadlines = [(now + GRACE, signal.SIGKILL)]  # the second signal ends our own commands at once
        while deadlines and time.monotonic() >= deadlines[0][0]:
            _send(processes, deadlines.pop(0)[1])
    return ends


def _is_failure(end: End, signals: Signals) -> bool:
    """Returns whether a process failed, rather than being stopped by a user."""
    return end.returncode not in (0, *STOPPED) and -end.returncode not in signals.received


def _likely_cause(end: End) -> int:
    """Sort key for processes that end at the same moment: a killed process makes others fail, not vice versa."""
    return (end.returncode > 0) + (end.returncode in STOPPED)


def _send(processes: Sequence[subprocess.Popen], number: int) -> None:
    """Sends a signal to the running processes; SIGKILL goes to their children, too."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)


def _end(processes: Sequence[subprocess.Popen]) -> None:
    """Ends the running processes after an error in this process."""
    _send(processes, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    _send(processes, signal.SIGKILL)
    for process in processes:
        process.wait()
