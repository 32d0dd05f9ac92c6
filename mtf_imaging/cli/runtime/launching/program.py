"""The words after `--` of launch, as a program with its arguments."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.cli.commands.all_commands import COMMANDS, load
from mtf_imaging.cli.runtime import usage
from mtf_imaging.cli.runtime.subprocesses import Program, own_program
from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean


def resolve_program(words: Sequence[str]) -> Program:
    """Returns the program for the given words.

    Args:
      words: a command of mtf-imaging with its flags, with or without the word mtf-imaging; a Python file with its
        arguments; or any other program with its arguments.

    Raises:
      ConfigError: there is no such command, file or program, or the flags of a command are wrong.
    """
    first, *rest = words
    if first == usage.PROGRAM:
        _check_command(rest)
        return own_program(rest)
    if first in COMMANDS:
        _check_command(words)
        return own_program(words)
    if first.endswith(".py"):
        if not Path(first).is_file():
            raise ConfigError(f"{first}: this Python file does not exist.")
        return Program([sys.executable, first, *rest], {})
    program = shutil.which(first)
    if program is None:
        raise ConfigError(_missing(first))
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


def _missing(first: str) -> str:
    if os.path.isdir(first):
        return f"{first}: is a folder, not a program."
    if os.path.exists(first):
        return f"{first}: this file is not executable. Fix: chmod +x {first}, or put its interpreter before it."
    if os.sep in first:
        return f"{first}: this program does not exist."
    return (
        f"there is no command or program '{first}'.{did_you_mean(first, COMMANDS)} "
        f"Fix: give a command of {usage.PROGRAM}, a Python file or a program on PATH."
    )
