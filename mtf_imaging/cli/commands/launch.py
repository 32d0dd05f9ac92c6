"""`mtf-imaging launch`: runs a command or a program as several local processes."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from mtf_imaging.cli.commands.all_commands import COMMANDS, load
from mtf_imaging.cli.runtime import usage
from mtf_imaging.cli.runtime.failures import ProgramFailed
from mtf_imaging.cli.runtime.launching.environment import build_environments
from mtf_imaging.cli.runtime.launching.group import STOPPED, run_group
from mtf_imaging.cli.runtime.launching.signals import Signals
from mtf_imaging.cli.runtime.subprocesses import Program, own_program
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.setting import Settings, setting, settings
from mtf_imaging.spelling import did_you_mean

_WRONG_COMMAND_LINE = 2


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      num_processes: number of processes.
      restarts: number of times to restart all processes after a failure.
      timeout: seconds after which a process that does not answer counts as lost. Default: MTF_IMAGING_TIMEOUT, or 60.
    """

    num_processes: int = setting(least=1, flag=True)
    restarts: int = setting(default=0, least=0, flag=True)
    timeout: float | None = setting(default=None, above=0, unit="s", flag=True)


SUMMARY = "runs a command or your own program as several processes on this host."
EXAMPLE = (
    "mtf-imaging launch --num_processes 4 -- "
    "train --data_dir records --model_dir run --mesh_shape rows:4 --layout x:rows"
)
SETTINGS = (_Flags,)
REST = "command"
NOTES = (
    "COMMAND is a command of mtf-imaging with its flags, a Python file with its arguments, or any other program: "
    "mtf-imaging launch --num_processes 2 --restarts 3 -- my_program.py --my_flag",
    "Each process gets TF_CONFIG with the addresses of all processes, MTF_IMAGING_TIMEOUT and, unless it is set, a new "
    "MTF_IMAGING_SECRET, which makes the processes ignore messages of other programs. Unless they are set, "
    "OMP_NUM_THREADS and TF_NUM_INTRAOP_THREADS divide the CPU cores among the processes. The processes have no "
    "standard input.",
    "Each line of the output of process 2 begins with [2]. The output of process 0 is not changed.",
    "SIGTERM, SIGUSR1, SIGHUP (a lost terminal) and Ctrl-C are passed on to every process. If a process fails, the "
    "others have 10 s to report it. Then they are ended, and launch ends with the exit code of the first process that "
    "failed or was stopped: 128 plus the number of a signal that killed it. A second signal ends the commands of "
    "mtf-imaging at once, and other programs after 10 s.",
    "--restarts does not apply to a wrong command line (exit code 2), to a program that was stopped (75, 130), or "
    "after a signal to launch. If launch is killed, Linux kills the processes.",
)


def run(values: flags.FlagValues) -> None:
    program = resolve_program(values[REST].value)
    _run_with_restarts(program, num=values.num_processes, restarts=values.restarts, timeout=values.timeout)


def resolve_program(words: Sequence[str]) -> Program:
    """Returns the program for the given words.

    Args:
      words: a command of mtf-imaging with its flags, with or without the word mtf-imaging; a Python file with its
        arguments; or any other program with its arguments.

    Raises:
      ConfigError: there is no such command, file or program, or the flags of a command are wrong.
    """
    first, *rest = words
    if first == usage.PROGRAM or first in COMMANDS:
        command = rest if first == usage.PROGRAM else words
        _check_command(command)
        return own_program(command)
    if first.endswith(".py") and Path(first).is_file():
        return Program([sys.executable, *words], {})
    program = shutil.which(first)
    if program is None:
        raise ConfigError(
            f"there is no command, Python file or executable program '{first}'.{did_you_mean(first, COMMANDS)} Fix: "
            f"give a command of {usage.PROGRAM}, a Python file, or a program on PATH; chmod +x makes a file executable."
        )
    return Program([program, *rest], {})


def _check_command(words: Sequence[str]) -> None:
    """Raises errors of a command line once, instead of in every process."""
    if not words:
        raise ConfigError(f"{usage.PROGRAM} after -- has no command. {usage.command_list()}")
    name, *rest = words
    if usage.wants_help(words) or name.startswith("-"):
        return
    if name not in COMMANDS:
        raise ConfigError(usage.unknown_command(name))
    if name == "launch":
        raise ConfigError("launch cannot start itself. Fix: remove the second launch.")
    usage.check_flags(name, load(name), rest)


def _run_with_restarts(program: Program, num: int, restarts: int, timeout: float | None) -> None:
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
                f"{usage.PROGRAM}: {end}; starting all processes again, restart {restart + 1} of {restarts}",
                file=sys.stderr,
                flush=True,
            )
