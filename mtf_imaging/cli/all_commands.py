"""The commands by name."""

import importlib

# Each is a module of this package with
#   SUMMARY, EXAMPLE: strings for its help.
#   REQUIRED: the flags that it needs.
#   define_flags(flags), run(flags): its flags, and what it does.
# and, where there is more to say,
#   NOTES: paragraphs for its help.
#   WORDS: the flag, of several values, that words without a flag are values of.
#   IDLE: {flag: why it changes nothing here}, of setup flags that are taken and not shown.
# None imports TensorFlow before it runs, so that help and mistakes are answered at once.
COMMANDS = (
    *("phantom", "convert", "train", "evaluate", "predict", "score"),
    *("explain", "search", "bench", "parameters", "study", "serve", "demo"),
)


def load(name: str):
    """Returns the module of a command."""
    return importlib.import_module(f"mtf_imaging.cli.{name}")
