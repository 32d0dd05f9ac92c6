"""Flags of a command: parsed, and explained."""

import logging
import textwrap

from absl import flags

import mtf_imaging
from mtf_imaging.cli.commands.all_commands import COMMANDS, load
from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

_logger = logging.getLogger(__name__)
PROGRAM = "mtf-imaging"
_WIDTH = 100


def parse_flags(name: str, command, argv: list[str]) -> flags.FlagValues:
    """Parses the arguments of a command and warns about flags that have no effect on it.

    Returns:
      The flags.

    Raises:
      ConfigError: an unknown flag, a value of the wrong type, an unexpected argument, or a missing flag.
    """
    values = _flags_of(command)
    values.set_gnu_getopt()
    see = f"See: {PROGRAM} {name} --help"
    try:
        words = values([PROGRAM, *(_gin_shorthand(word) for word in argv)])[1:]
    except flags.UnrecognizedFlagError as error:
        raise ConfigError(
            f"{name} has no flag '--{error.flagname}'{_elsewhere(error.flagname, values)} {see}"
        ) from error
    except flags.Error as error:
        raise ConfigError(f"{error}. {see}") from error
    if words and not hasattr(command, "WORDS"):
        raise ConfigError(f"{name} takes flags only; '{words[0]}' is none. {see}")
    missing = [f"--{flag}" for flag in command.REQUIRED if not values[flag].value]
    if missing:
        raise ConfigError(f"{name} needs {' and '.join(missing)}. Example: {command.EXAMPLE}")
    for flag, why in getattr(command, "IDLE", {}).items():
        if values[flag].present:
            _logger.warning("--%s %s has no effect: %s", flag, values[flag].value, why)
    if words:
        values[command.WORDS].value = [*values[command.WORDS].value, *words]
    return values


def _elsewhere(flag: str, values: flags.FlagValues) -> str:
    """Names the commands that have a flag. If there are none, suggests a similar flag of this command."""
    having = [name for name in COMMANDS if flag in _flags_of(load(name))]
    if not having:
        return f".{did_you_mean(flag, values)}"
    *most, last = having
    return f", which {', '.join(most)} and {last} have." if most else f", which {last} has."


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
            f"{PROGRAM} COMMAND --help lists the flags of a command.",
            "To list the gin parameters, for instance of the U-Net:",
            f"  {commands['parameters'].EXAMPLE}",
            "To try a short example of the whole workflow:",
            f"  {commands['demo'].EXAMPLE}",
        ]
    )


def command_help(name: str, command) -> str:
    """The text of `mtf-imaging COMMAND --help`."""
    values, idle = _flags_of(command), getattr(command, "IDLE", {})
    lines = [f"{PROGRAM} {name}: {command.SUMMARY}", "", "Example:", f"  {command.EXAMPLE}", ""]
    if hasattr(command, "WORDS"):
        lines += ["Usage:", f"  {PROGRAM} {name} [{command.WORDS.upper()} ...] [flags]", ""]
    lines.append("Flags:")
    for flag in (values[flag] for flag in values if flag not in idle):
        needed = " (needed)" if flag.name in command.REQUIRED else ""
        default = f" (default: {flag.default})" if flag.default not in (None, False, []) else ""
        lines.append(f"  --{flag.name}{needed}")
        text = flag.help.split(";\n")[0]  # absl says there of what may be repeated that it may be
        lines += textwrap.wrap(f"{text}{default}", _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    for note in getattr(command, "NOTES", ()):
        lines += ["", *textwrap.wrap(note, _WIDTH)]
    return "\n".join(lines)


def known() -> str:
    return f"Commands: {', '.join(COMMANDS)}. See: {PROGRAM} --help"


def unknown_command(name: str) -> str:
    return f"there is no command '{name}'.{did_you_mean(name, COMMANDS)} {known()}"
