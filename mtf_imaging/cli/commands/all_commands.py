"""The table of commands."""

import importlib

# Each is a module of this package with
#   SUMMARY, EXAMPLE: strings for its help.
#   REQUIRED: the flags that must be given.
#   define_flags(flags): defines its flags.
#   run(flags): runs it.
# and, optionally,
#   NOTES: paragraphs for its help.
#   WORDS: the name of a repeatable flag that takes the positional arguments.
#   IDLE: {flag: reason}, the setup flags that it accepts but that have no effect; its help leaves them out.
# No module imports TensorFlow before `run`, so help and errors in the command line appear at once.
COMMANDS = (
    *("phantom", "convert", "train", "evaluate", "predict", "score"),
    *("explain", "search", "bench", "parameters", "study", "serve", "demo"),
)


def load(name: str):
    """Imports the module of a command and returns it."""
    return importlib.import_module(f"mtf_imaging.cli.commands.{name}")
