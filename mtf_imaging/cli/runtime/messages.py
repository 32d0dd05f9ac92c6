"""Lets the package's log lines be seen, as they are, and those of libraries where they warn."""

import logging
import os
import sys

from tqdm import tqdm

_NAME = "mtf_imaging"


class _AboveBars(logging.Handler):
    """Writes lines to stderr above the progress bars that are shown there."""

    def emit(self, record):
        tqdm.write(self.format(record), file=sys.stderr)


def colors() -> bool:
    """Whether what is printed may be coloured: on a terminal, unless NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def show() -> None:
    """Writes what the package logs, from INFO up, to stderr."""
    logger = logging.getLogger(_NAME)
    if not logger.handlers:
        logger.addHandler(_AboveBars())
        logger.setLevel(logging.INFO)
    root = logging.getLogger()
    if not root.handlers:  # else absl adds one, in the middle of a run, that writes our lines again
        others = _AboveBars(logging.WARNING)
        others.addFilter(lambda record: not record.name.startswith(_NAME))
        root.addHandler(others)
