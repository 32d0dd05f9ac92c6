"""Flags of a command: parsed, and explained."""

import textwrap

from absl import flags

import mtf_imaging
from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

PROGRAM = "mtf-imaging"
_WIDTH = 100


def parse_flags(name: str, command, argv: list[str]) -> flags.FlagValues:
    """Parses the words after a command.

    Raises:
      ConfigError: unknown flags, values of the wrong kind, words that are no flags, or flags that are missing.
    """
    values = _flags_of(command)
    values.set_gnu_getopt()
    see = f"See: {PROGRAM} {name} --help"
    try:
        words = values([PROGRAM, *(_gin_shorthand(word) for word in argv)])[1:]
    except flags.UnrecognizedFlagError as error:
        raise ConfigError(
            f"{name} has no flag '--{error.flagname}'.{did_you_mean(error.flagname, values)} {see}"
        ) from error
    except flags.Error as error:
        raise ConfigError(f"{error}. {see}") from error
    if words:
        raise ConfigError(f"{name} takes flags only; '{words[0]}' is none. {see}")
    missing = [f"--{flag}" for flag in command.REQUIRED if not values[flag].value]
    if missing:
        raise ConfigError(f"{name} needs {' and '.join(missing)}. Example: {command.EXAMPLE}")
    return values


def _gin_shorthand(word: str) -> str:
    """--gin.NAME=VALUE is --gin_param=NAME=VALUE."""
    return f"--gin_param={word.removeprefix('--gin.')}" if word.startswith("--gin.") else word


def _flags_of(command) -> flags.FlagValues:
    values = flags.FlagValues()  # the command's own: libraries define theirs on absl's global one
    command.define_flags(values)
    return values


def version() -> str:
    return f"{PROGRAM} {mtf_imaging.__version__}"


def overview(commands: dict) -> str:
    """The text of `mtf-imaging --help`."""
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {command.SUMMARY}" for name, command in commands.items()]
    return "\n".join(
        [
            "Trains and runs segmentation networks on volumes too large for one device.",
            "",
            f"Usage: {PROGRAM} COMMAND [flags]",
            "",
            *lines,
            "",
            f"{PROGRAM} COMMAND --help lists the flags of a command. To see it all at work:",
            f"  {commands['demo'].EXAMPLE}",
        ]
    )


def command_help(name: str, command) -> str:
    """The text of `mtf-imaging COMMAND --help`."""
    values = _flags_of(command)
    lines = [f"{PROGRAM} {name}: {command.SUMMARY}", "", "Example:", f"  {command.EXAMPLE}", "", "Flags:"]
    for flag in (values[flag] for flag in values):
        needed = " (needed)" if flag.name in command.REQUIRED else ""
        default = f" (default: {flag.default})" if flag.default not in (None, False, []) else ""
        lines.append(f"  --{flag.name}{needed}")
        text = flag.help.split(";\n")[0]  # absl says there of what may be repeated that it may be
        lines += textwrap.wrap(f"{text}{default}", _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    for note in getattr(command, "NOTES", ()):
        lines += ["", *textwrap.wrap(note, _WIDTH)]
    return "\n".join(lines)


def known(commands) -> str:
    return f"Commands: {', '.join(commands)}. See: {PROGRAM} --help"


def unknown_command(name: str, commands) -> str:
    return f"there is no command '{name}'.{did_you_mean(name, commands)} {known(commands)}"
