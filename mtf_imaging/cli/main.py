"""`mtf-imaging COMMAND [flags]`: finds the command, parses its flags and turns errors into messages."""

import logging
import sys

from mtf_imaging.cli.commands.all_commands import ANYWHERE, COMMANDS, TOGETHER, load
from mtf_imaging.cli.runtime import messages, next_step, streams, usage
from mtf_imaging.cli.runtime.failures import exit_code, explain
from mtf_imaging.cli.runtime.process import check_process
from mtf_imaging.errors import ConfigError
from mtf_imaging.processes.processes import find_processes


def main(argv: list[str] | None = None) -> int:
    """Runs a command line.

    Args:
      argv: the words after `mtf-imaging`; None for the words of this process.

    Returns:
      The exit code: 0 for success, 1 if the command failed, 2 if the command line or the configuration is wrong, 75 if
      a scheduler stopped the command early and the same command line resumes it, 130 after Ctrl-C. `launch` returns
      the exit code of the program that it runs.
    """
    argv = sys.argv[1:] if argv is None else argv
    streams.prepare()
    try:
        _dispatch(argv)
    except (Exception, KeyboardInterrupt) as error:
        message = explain(error, argv)
        if message is None:
            raise
        if message:
            print(f"{usage.PROGRAM}: {message}", file=sys.stderr)
        return exit_code(error)
    return 0


def _dispatch(argv: list[str]) -> None:
    if argv[:1] == ["help"]:  # many programs accept this word instead of --help
        argv = [*argv[1:], "--help"]
    check_process()
    usage.check_words(argv)
    own, _ = usage.split_rest(argv)
    words = [word for word in own if not word.startswith("-")]
    wants_help = usage.wants_help(own)
    if "--version" in argv[:1]:
        print(usage.version())
    elif not words and (wants_help or not argv):
        print(usage.overview({name: load(name) for name in COMMANDS}))
    elif not words or argv[0] != words[0]:
        raise ConfigError(f"the command comes first: {usage.PROGRAM} COMMAND [flags]. {usage.command_list()}")
    elif words[0] not in COMMANDS:
        raise ConfigError(usage.unknown_command(words[0]))
    elif wants_help:
        print(usage.command_help(words[0], load(words[0])))
    else:
        command = load(words[0])
        processes = None if words[0] in ANYWHERE else find_processes()
        if processes is not None and words[0] not in TOGETHER:
            raise ConfigError(
                f"{words[0]} runs as one process, but this is {processes.name(processes.index)} of {processes.num}. "
                f"Fix: start it without a launcher. The commands that run as several processes: {', '.join(TOGETHER)}."
            )
        is_first = processes is None or processes.is_first
        messages.show(logging.INFO if is_first else logging.WARNING)
        text = command.run(usage.parse_flags(words[0], command, argv[1:]))
        if is_first:
            next_step.show(text)


if __name__ == "__main__":
    sys.exit(main())
