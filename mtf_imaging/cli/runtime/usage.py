"""Parses the flags of a command and writes the help."""

import logging
import re
import textwrap
import unicodedata
from collections.abc import Sequence

from absl import flags

from mtf_imaging.cli.commands.all_commands import COMMANDS, GROUPS, flags_of, load, settings_with_flags
from mtf_imaging.cli.config.flags_of_settings import FlagSettings, required, shown_default
from mtf_imaging.data.listing.names import printable
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.provenance.package import this_package
from mtf_imaging.spelling import closest, did_you_mean

_logger = logging.getLogger(__name__)
PROGRAM = "mtf-imaging"
_WIDTH = 100
# The flags that most people need, of all commands; help lists them before the others.
_COMMON = """
    batch_size checkpoint cleanup data_dir ensemble eval_dir fold gin_file gin_param hardware json layout max_resolution
    mesh_shape model_dir network num_devices num_steps output output_format overwrite patch picture probabilities
    resolution sequential spacing spacing_csv top window workers
"""
# absl's message for a value that is not a number, which quotes Python.
_NUMBERS = re.compile(
    r"flag --(?P<flag>\w+)=(?P<value>.*): (?P<python>invalid literal for int|could not convert string)"
)


def check_words(argv: Sequence[str]) -> None:
    """Checks that a command line is text, because paths are written to result files and run files.

    Raises:
      ConfigError: a word contains bytes that are not UTF-8.
    """
    for word in argv:
        if any(unicodedata.category(c) == "Cs" for c in word):
            raise ConfigError(
                f"{printable(word)}: has bytes that are not UTF-8. Fix: rename this file or folder, or give a link to "
                "it."
            )


def parse_flags(name: str, command, argv: list[str]) -> flags.FlagValues:
    """Parses the arguments of a command and warns about flags that have no effect on it.

    Returns:
      The flags. If the command has `REST`, a flag of that name contains the words after the first `--`, unchanged.

    Raises:
      ConfigError: an unknown flag, a value of the wrong type, an unexpected argument, or a missing flag.
    """
    values = check_flags(name, command, argv)
    for flag, why in getattr(command, "IDLE", {}).items():
        if values[flag].present:
            _logger.warning("--%s %s has no effect: %s", flag, values[flag].value, why)
    return values


def check_flags(name: str, command, argv: list[str]) -> flags.FlagValues:
    """Parses the arguments of a command without warnings; see `parse_flags`."""
    values, rest = flags_of(command), []
    if hasattr(command, "REST"):
        argv, rest = split_rest(argv)
        if not rest:
            raise ConfigError(f"{name} needs a {command.REST} after --. Example: {command.EXAMPLE}")
    values.set_gnu_getopt()
    see = f"See: {PROGRAM} {name} --help"
    for word, value in zip(argv, [*argv[1:], ""]):
        if word.startswith("--gin.") and "=" not in word:
            example = value if value and not value.startswith("-") else "VALUE"
            raise ConfigError(f"{word} has no value. Fix: {word}={example}")
    try:
        words = values([PROGRAM, *(_gin_shorthand(word) for word in argv)])[1:]
    except flags.UnrecognizedFlagError as error:
        raise ConfigError(
            f"{name} has no flag '--{error.flagname}'{_elsewhere(error.flagname, values)} {see}"
        ) from error
    except flags.Error as error:
        raise ConfigError(f"{_explained(str(error))} {see}") from error
    if words and not hasattr(command, "WORDS"):
        hint = f" Did you mean '--{words[0]}'?" if words[0] in values else ""
        raise ConfigError(f"{name} takes only flags, but '{words[0]}' is not a flag.{hint} {see}")
    if words:
        values[command.WORDS].value = [*(values[command.WORDS].value or ()), *words]
    FlagSettings(values, *settings_with_flags(command))  # checks the values
    instead = getattr(command, "INSTEAD", {})
    given = [flag for flag in values if values[flag].value]
    missing = [
        f"--{flag} or --{instead[flag]}" if flag in instead else f"--{flag}"
        for flag in required(*command.SETTINGS)
        if flag not in given and instead.get(flag) not in given
    ]
    if missing:
        raise ConfigError(f"{name} needs {_enumeration(missing)}. Example: {command.EXAMPLE}")
    if hasattr(command, "REST"):  # defined after parsing, so that it is not a flag of the command line
        flags.DEFINE_multi_string(command.REST, rest, "The words after --.", flag_values=values)
    return values


def split_rest(argv: list[str]) -> tuple[list[str], list[str]]:
    """Returns the words before and after the first `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def wants_help(argv: Sequence[str]) -> bool:
    """Returns whether the words of a command line ask for help."""
    return any(word in ("-h", "-help", "--help") for word in argv) or list(argv[1:]) == ["help"]


def usage_line(name: str, command) -> str:
    """Returns the usage line of a command."""
    words = f" [{command.WORDS.upper()} ...]" if hasattr(command, "WORDS") else ""
    rest = f" -- {command.REST.upper()} ..." if hasattr(command, "REST") else ""
    return f"{PROGRAM} {name}{words} [flags]{rest}"


def _elsewhere(flag: str, values: flags.FlagValues) -> str:
    """Names the commands that use a flag. If no command does, suggests a similar flag of this command."""
    modules = {name: load(name) for name in COMMANDS}
    having = [name for name, one in modules.items() if flag in flags_of(one) and flag not in getattr(one, "IDLE", ())]
    if not having:
        match = closest(flag, values)
        return f". Did you mean '--{match}'?" if match else "."
    return f", which {_enumeration(having)} {'have' if len(having) > 1 else 'has'}."


def _enumeration(words: Sequence[str]) -> str:
    """Returns "a", "a and b" or "a, b and c"."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _explained(message: str) -> str:
    """Returns absl's message, reworded for a value that is not a number."""
    match = _NUMBERS.search(message)
    if match is None:
        return f"{message}."
    kind = "an integer" if "int" in match["python"].split() else "a number"
    return f"--{match['flag']}={match['value']}: '{match['value']}' is not {kind}."


def _gin_shorthand(word: str) -> str:
    """Rewrites --gin.NAME=VALUE as --gin_param=NAME=VALUE."""
    return f"--gin_param={word.removeprefix('--gin.')}" if word.startswith("--gin.") else word


def version() -> str:
    """Returns the text of `mtf-imaging --version`."""
    package = this_package()
    return f"{PROGRAM} {package.version}" + (f" (commit {package.commit})" if package.commit else "")


def overview(commands: dict) -> str:
    """Returns the text of `mtf-imaging --help`."""
    width = max(map(len, commands))
    lines = []
    for group, names in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:{width}}  {commands[name].SUMMARY}" for name in names), ""]
    return "\n".join(
        [
            "Trains and runs convolutional networks on images too large for one device.",
            "",
            f"Usage: {PROGRAM} COMMAND [flags]",
            "",
            *lines,
            "To begin, run the whole workflow on synthetic CTs (6 minutes on 2 CPU cores):",
            f"  {commands['demo'].EXAMPLE}",
            "To list the flags of a command, with an example:",
            f"  {PROGRAM} train --help",
            "To list the gin parameters, for instance of the U-Net:",
            f"  {commands['parameters'].EXAMPLE}",
        ]
    )


def command_help(name: str, command) -> str:
    """Returns the text of `mtf-imaging COMMAND --help`."""
    values, idle = flags_of(command), getattr(command, "IDLE", {})
    lines = [f"{PROGRAM} {name}: {command.SUMMARY}", "", "Example:", f"  {command.EXAMPLE}", ""]
    if hasattr(command, "WORDS") or hasattr(command, "REST"):
        lines += ["Usage:", f"  {usage_line(name, command)}", ""]
    common = _COMMON.split()
    own, needs = [values[flag] for flag in values if flag not in idle], required(*command.SETTINGS)
    groups = {
        "Required": [flag for flag in own if flag.name in needs],
        "Common": [flag for flag in own if flag.name in common and flag.name not in needs],
        "Other": [flag for flag in own if flag.name not in common and flag.name not in needs],
    }
    shown = {title: group for title, group in groups.items() if group}
    for title, group in shown.items():
        title = f"{title} flags" if len(shown) > 1 else "Flags"
        lines += [f"{title}:", *(line for flag in group for line in _flag_lines(command, flag, needs)), ""]
    for note in getattr(command, "NOTES", ()):
        lines += [*_wrapped(note), ""]
    return "\n".join(lines[:-1])


def _flag_lines(command, flag, needs: Sequence[str]) -> list[str]:
    """Returns a flag with its help."""
    default = f" (default: {shown})" if (shown := shown_default(flag)) else ""
    text = flag.help.split(";\n")[0]  # drops absl's note that the flag may be repeated
    need = f" ({needed(command, flag.name)})" if flag.name in needs else ""
    return [f"  --{flag.name}{need}", *_wrapped(f"{text}{default}", " " * 6)]


def needed(command, flag: str) -> str:
    """Returns the text of the help for a required flag."""
    other = getattr(command, "INSTEAD", {}).get(flag)
    return f"required, or --{other}" if other else "required"


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Returns the lines of a paragraph. Names such as mtf-imaging stay whole."""
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def command_list() -> str:
    """Returns the list of commands that ends a message."""
    return f"Commands: {', '.join(COMMANDS)}. See: {PROGRAM} --help"


def unknown_command(name: str) -> str:
    """Returns the message for a command that does not exist."""
    return f"there is no command '{name}'.{did_you_mean(name, COMMANDS)} {command_list()}"
