"""The table of commands."""

import importlib

# Each command is a module of this package with
#   SUMMARY, EXAMPLE: strings for its help.
#   REQUIRED: the flags that must be given.
#   define_flags(flags): defines its flags.
#   run(flags): runs it and returns the next step that `runtime.next_step` shows, or None.
# and, optionally,
#   NOTES: paragraphs for its help.
#   WORDS: the name of a repeatable flag that takes the positional arguments.
#   REST: a name for the words after `--`, which it takes unchanged, and needs; `run` finds them as flags[REST].
#   IDLE: {flag: reason}, the setup flags that it accepts but that have no effect; its help leaves them out.
# No module imports TensorFlow before `run`, so the help and errors in the command line appear at once.
GROUPS = {
    "Data": ("phantom", "convert"),
    "Training": ("train", "cross_validate", "study", "import_weights"),
    "Evaluation": ("evaluate", "predict", "score", "export"),
    "Layouts": ("plan", "explain", "search", "bench"),
    "Clusters": ("serve", "launch"),
    "First steps and help": ("demo", "parameters"),
}
COMMANDS = tuple(name for group in GROUPS.values() for name in group)
# Commands that run as several processes that compute together, and commands that any process may run.
TOGETHER = ("train", "cross_validate", "evaluate", "predict")
ANYWHERE = ("serve", "launch", "parameters")


def load(name: str):
    """Imports the module of a command and returns it."""
    return importlib.import_module(f"mtf_imaging.cli.commands.{name}")
