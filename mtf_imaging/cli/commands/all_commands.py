"""The table of commands."""

import importlib

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.config.flags_of_settings import define
from mtf_imaging.cli.config.groups import PARAMETERS, SETUP_PARAMETERS

# Each command is a module of this package with
#   SUMMARY, EXAMPLE: strings for its help.
#   SETTINGS: the classes of the settings that it has flags for.
#   run(flags): runs it and returns what to do next, which the last line of the output shows, or None.
# and, optionally,
#   INSTEAD: {a required flag: the flag that may be given instead}; may be missing.
#   WITHOUT: for commands that run a job, names of setup flags that it does not have.
#   NOTES: paragraphs for its help.
#   WORDS: the name of a repeatable flag that takes the positional arguments.
#   REST: a name for the words after `--`, which it takes unchanged, and needs; `run` finds them as flags[REST].
#   IDLE: {flag: reason}, the setup flags that it accepts but that have no effect; its help leaves them out.
# No module imports TensorFlow before `run`, so the help and errors in the command line appear at once.
GROUPS = {
    "Data": ("phantom", "inspect", "convert"),
    "Training": ("train", "cross_validate", "import_weights"),
    "Evaluation": ("evaluate", "predict", "score", "export", "info", "verify"),
    "Layouts": ("plan", "explain", "search", "bench"),
    "Several processes": ("launch",),
    "First steps and help": ("demo", "parameters"),
}
COMMANDS = tuple(name for group in GROUPS.values() for name in group)
# Commands that run as several processes that compute together, and commands that any process may run.
TOGETHER = ("train", "cross_validate", "evaluate", "predict")
ANYWHERE = ("launch", "parameters", "info", "verify")


def flags_of(command) -> flags.FlagValues:
    """Returns the flags of a command, without values."""
    values = flags.FlagValues()  # not the global flags of absl, which libraries extend
    if not hasattr(command, "WITHOUT"):
        define(values, *command.SETTINGS)
        return values
    define(values, *command.SETTINGS, without=SETUP_PARAMETERS, bound=PARAMETERS)
    define(values, *setup_flags.CLASSES, without=command.WITHOUT, bound=PARAMETERS)
    return values


def settings_with_flags(command) -> tuple[type, ...]:
    """Returns the classes of the settings for which a command has flags."""
    return (*command.SETTINGS, *(setup_flags.CLASSES if hasattr(command, "WITHOUT") else ()))


def load(name: str):
    """Imports the module of a command and returns it."""
    return importlib.import_module(f"mtf_imaging.cli.commands.{name}")
