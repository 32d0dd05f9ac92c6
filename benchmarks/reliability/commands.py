"""Runs one command of the program to its end or to a time limit, and returns its output."""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.reliability import forked

PROGRAM = "mtf_imaging.cli.main"
_POLL_S = 0.02  # interval at which a running command is polled
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a command.

    Attributes:
      code: the exit code; None if a limit of time or memory ended it, negative for a signal.
      text: everything that it printed to stdout and stderr.
      seconds: its duration.
      peak_mib: the peak of its resident memory; 0 if it ended before a first look.
    """

    code: int | None
    text: str
    seconds: float
    peak_mib: int


def run(
    words: Sequence[object],
    folder: Path,
    limit: float,
    environment: Mapping[str, str | None] | None = None,
    limits: Mapping[int, int] | None = None,
    most_mib: float = float("inf"),
) -> Result:
    """Runs the program with arguments in a folder; its output goes to a hidden file next to the folder.

    Args:
      words: the command and its flags.
      folder: the working folder.
      limit: seconds after which the command and its workers are killed.
      environment: variables to set, or to remove if the value is None.
      limits: soft limits of resources.
      most_mib: resident memory above which the command is also killed.
    """
    log = folder.with_name(f".{folder.name}.log")
    began = time.monotonic()
    process = start(words, folder, log, environment, limits)
    peak = 0
    while (code := forked.exit_code(process)) is None and time.monotonic() - began < limit and peak <= most_mib:
        peak = max(peak, _peak_mib(process.pid))
        time.sleep(_POLL_S)
    seconds = time.monotonic() - began
    kill(process)
    text = log.read_bytes().decode(errors="replace")
    log.unlink()
    return Result(code, text, seconds, peak)


def start(
    words: Sequence[object],
    folder: Path,
    log: Path | None = None,
    environment: Mapping[str, str | None] | None = None,
    limits: Mapping[int, int] | None = None,
) -> BaseProcess:
    """Starts the program in a folder, in a separate session."""
    return forked.start(
        PROGRAM,
        *words,
        cwd=folder,
        stdout=log,
        stderr=log,
        environment=_QUIET | dict(environment or {}),
        limits=limits,
        session=True,
    )


def kill(process: BaseProcess) -> None:
    """Kills a process with its workers."""
    if process.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    while forked.exit_code(process) is None:
        time.sleep(_POLL_S)


def _peak_mib(pid: int | None) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    return 0
