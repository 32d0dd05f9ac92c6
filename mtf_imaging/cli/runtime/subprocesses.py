"""Runs command lines on behalf of another command, and prints each one first."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.cli.runtime.failures import INTERRUPTED
from mtf_imaging.cli.runtime.interrupts import EXIT_CODE
from mtf_imaging.cli.runtime.launching.signals import Signals
from mtf_imaging.errors import Interrupted, MtfImagingError
from mtf_imaging.files.workers import ctrl_c_held_back

QUIET = "MTF_IMAGING_NO_NEXT_STEP"  # set for commands that another command runs
_LONGEST_WAIT = 60.0  # seconds


class Program(NamedTuple):
    """A program to start."""

    words: list[str]  # its path and its arguments
    environ: dict[str, str]  # additional environment variables
    is_own: bool = False  # whether it is a command of this package

    def start(self, environ: Mapping[str, str], **options: object) -> subprocess.Popen:
        """Starts the program.

        Ctrl-C is blocked until the command handles it, because Python itself would show a traceback.

        Args:
          environ: all environment variables.
          **options: other arguments of `subprocess.Popen`.
        """
        with ctrl_c_held_back() if self.is_own else contextlib.nullcontext():
            return subprocess.Popen(self.words, env=environ, **options)


def own_program(words: Sequence[str]) -> Program:
    """Returns the program that runs a command line with this interpreter and this package.

    Args:
      words: the words after `mtf-imaging`.
    """
    # The running package, wherever it was imported from.
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
    # -P: the working folder, which may contain anything, is not searched for modules.
    return Program([sys.executable, "-P", "-m", "mtf_imaging.cli.main", *words], {"PYTHONPATH": path}, is_own=True)


def command_words(command: str, values: dict[str, Any]) -> list[str]:
    """Returns the words of a command line after the name of the program.

    Args:
      command: the name of the command.
      values: {flag: value}. A list repeats its flag, True stands for a flag without a value, and None is left out.

    >>> command_words("train", {"data_dir": "records", "fold": None, "gin_file": ["unet3d_demo", "4x4"]})
    ['train', '--data_dir', 'records', '--gin_file', 'unet3d_demo', '--gin_file', '4x4']
    """
    words = [command]
    for name, value in values.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and one is not False:
                words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
    return words


def run_command(command: str, **values) -> None:
    """Prints a command line as a user would type it, and runs it in a separate process.

    Args:
      command: the name of the command.
      **values: its flags; a list repeats its flag.

    A signal that stops this process is passed on to the command, which may save a checkpoint.

    Raises:
      MtfImagingError: the command failed.
      Interrupted: a signal has stopped the command.
      KeyboardInterrupt: Ctrl-C has stopped the command.
    """
    words = command_words(command, values)
    print(f"$ mtf-imaging {shlex.join(words)}", flush=True)
    program = own_program(words)
    with Signals() as signals:
        process = program.start(os.environ | program.environ | {QUIET: "1"})
        while process.poll() is None:
            signals.wait(_LONGEST_WAIT)
            for number in signals.take():
                process.send_signal(number)
    code = process.returncode
    if signals.received and (code in (0, INTERRUPTED, EXIT_CODE) or {-code, code - 128} & signals.received):
        what = f"stopped in mtf-imaging {words[0]}. Run the same command to continue."
        if signal.SIGINT in signals.received:
            raise KeyboardInterrupt(f"Ctrl-C: {what}")
        raise Interrupted(f"{signal.Signals(min(signals.received)).name}: {what}")
    if code:
        raise MtfImagingError(f"this command failed: mtf-imaging {shlex.join(words)}")
