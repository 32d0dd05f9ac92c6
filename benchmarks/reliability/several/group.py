"""Starts one command as several processes, as a scheduler does, and collects the results of each."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from benchmarks.reliability.commands import PROGRAM
from benchmarks.reliability.results import ROOT
from mtf_imaging.cli.runtime.launching.environment import build_environments

_EVERY = 0.01  # seconds between two checks of the processes


@dataclasses.dataclass(frozen=True)
class Change:
    """The differences of one process from the others.

    Attributes:
      program: the module to run, with the words that precede the command.
      more: additional words of the command.
      environment: additional variables.
      folder: the working folder, or None for the group's folder.
    """

    program: tuple[str, ...] = (PROGRAM,)
    more: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    folder: Path | None = None


@dataclasses.dataclass(frozen=True)
class End:
    """The end of a process.

    Attributes:
      index: the process number.
      code: the exit code, negative for a signal; None if the process was still running at the limit.
      text: everything that it printed.
    """

    index: int
    code: int | None
    text: str


def environments(num: int, timeout: float) -> list[dict[str, str]]:
    """Returns the environment variables of a group's processes, with ports that are free now.

    Args:
      num: number of processes.
      timeout: seconds after which a process counts as lost.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "SLURM_"))}
    own |= {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"}
    return build_environments(own, num, timeout)


def _react_to_signals() -> None:
    """Restores the signals that nohup, or a shell for processes in the background, ignores; they would be inherited."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Group:
    """Processes that run one command together, with their output in files. The block kills processes that still run.

    Args:
      words: the command and its flags.
      variables: the environment variables of each process, from `environments`.
      folder: the working folder, which also receives the outputs.
      changes: the `Change`s of some processes, by number; None for a process that is not started.
    """

    def __init__(
        self,
        words: Sequence[object],
        variables: Sequence[Mapping[str, str]],
        folder: Path,
        changes: Mapping[int, Change | None] | None = None,
    ) -> None:
        self._words, self._variables, self._folder = [*map(str, words)], variables, folder
        self._processes: dict[int, subprocess.Popen] = {}
        for index in range(len(variables)):
            change = (changes or {}).get(index, Change())
            if change is not None:
                self.start(index, change)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for index in self._processes:
            self.send(index, signal.SIGKILL)
            self._processes[index].wait()

    def start(self, index: int, change: Change | None = None) -> subprocess.Popen:
        """Starts a process, possibly for a second time, and returns it."""
        change, log = change or Change(), self._log(index)
        command = [sys.executable, "-m", *change.program, *self._words, *change.more]
        with open(log, "ab") as output:
            self._processes[index] = subprocess.Popen(
                command,
                env={**self._variables[index], **change.environment},
                cwd=change.folder or self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_react_to_signals,
            )
        return self._processes[index]

    def send(self, index: int, number: int) -> None:
        """Sends a signal to a process unless it has ended; SIGKILL also to its workers."""
        process = self._processes[index]
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)

    def running(self) -> list[int]:
        """Returns the numbers of the running processes."""
        return [index for index, process in self._processes.items() if process.poll() is None]

    def wait(self, limit: float, without: Sequence[int] = ()) -> bool:
        """Waits until all processes have ended, and returns whether they have.

        Args:
          limit: seconds to wait.
          without: numbers of processes that do not have to end.
        """
        end = time.monotonic() + limit
        while set(self.running()) - {*without}:
            if time.monotonic() > end:
                return False
            time.sleep(_EVERY)
        return True

    def ends(self) -> list[End]:
        """Returns the ends of the processes; the code of a process that still runs is None."""
        return [End(index, process.poll(), self.text(index)) for index, process in sorted(self._processes.items())]

    def text(self, index: int) -> str:
        """Returns the output of a process."""
        return self._log(index).read_text(errors="replace")

    def _log(self, index: int) -> Path:
        return self._folder / f"process-{index}.log"
