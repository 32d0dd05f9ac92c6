"""Finds the command of a command line, parses its flags and turns errors into messages."""

import contextlib
import logging
import os
import sys

from mtf_imaging.cli.commands.all_commands import ANYWHERE, COMMANDS, TOGETHER, load
from mtf_imaging.cli.runtime import address_space, messages, streams, usage
from mtf_imaging.cli.runtime.failures import exit_code, explain
from mtf_imaging.cli.runtime.interrupts import Interrupts
from mtf_imaging.cli.runtime.subprocesses import QUIET
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean


def run(argv: list[str], interrupts: Interrupts) -> int:
    """Runs a command line, and reports its failure.

    Args:
      argv: the words after `mtf-imaging`.
      interrupts: the handler of Ctrl-C.

    Returns:
      The exit code; see `main.main`.
    """
    streams.prepare()
    try:
        _dispatch(argv)
    except (Exception, KeyboardInterrupt) as error:
        # A library may have replaced a KeyboardInterrupt, for instance with an ImportError.
        message = explain(error, argv)
        if message is None and interrupts.has_arrived:
            error, message = KeyboardInterrupt(), explain(KeyboardInterrupt())
        if message is None:
            raise
        if message:
            with contextlib.suppress(OSError):  # the output pipe is closed
                print(f"{usage.PROGRAM}: {message}", file=sys.stderr)
        return exit_code(error)
    return 0


def _dispatch(argv: list[str]) -> None:
    if argv[:1] == ["help"]:  # many programs accept this word instead of --help
        argv = [*argv[1:], "--help"]
    _check_process()
    usage.check_words(argv)
    own, _ = usage.split_rest(argv)
    words = [word for word in own if not word.startswith("-")]
    wants_help = usage.wants_help(own)
    if "--version" in argv[:1]:
        print(usage.version())
    elif not words and (wants_help or not argv):
        print(usage.overview({name: load(name) for name in COMMANDS}))
    elif not words or argv[0] != words[0]:
        hint = did_you_mean(argv[0], ("--help", "--version"))
        raise ConfigError(
            f"the command comes first, but '{argv[0]}' is a flag: {usage.PROGRAM} COMMAND [flags].{hint} "
            f"{usage.command_list()}"
        )
    elif words[0] not in COMMANDS:
        raise ConfigError(usage.unknown_command(words[0]))
    elif wants_help:
        print(usage.command_help(words[0], load(words[0])))
    else:
        address_space.check_address_space("NumPy and SciPy")
        command = load(words[0])
        processes = None if words[0] in ANYWHERE else find_processes()
        if processes is not None and words[0] not in TOGETHER:
            raise ConfigError(
                f"{words[0]} runs as one process, but this is {processes.name(processes.index)} of {processes.num}. "
                f"Fix: start it without a launcher. The commands that run as several processes: {', '.join(TOGETHER)}."
            )
        is_first = processes is None or processes.is_first
        messages.show(logging.INFO if is_first else logging.WARNING)
        next_step = command.run(usage.parse_flags(words[0], command, argv[1:]))
        if next_step and is_first and QUIET not in os.environ:
            print(f"Next: {next_step}", flush=True)


def _check_process() -> None:
    """Checks that Python keeps docstrings, which describe the flags, and that the working folder exists.

    Raises:
      ConfigError: one of these requirements is not met.
    """
    if sys.flags.optimize > 1:
        raise ConfigError(
            "Python runs without docstrings (PYTHONOPTIMIZE=2 or -OO), which describe the flags of the commands. "
            "Fix: set PYTHONOPTIMIZE to 1, or unset it."
        )
    try:
        os.getcwd()
    except OSError as error:
        raise ConfigError(f"the working folder: {error.strerror}. Fix: change to a folder that exists.") from error
