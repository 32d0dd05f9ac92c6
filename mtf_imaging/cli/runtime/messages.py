"""Lets the package's log lines be seen, as they are, and those of libraries where they warn."""

import logging
import sys

from tqdm import tqdm

from mtf_imaging.cli.runtime.spelled import on_the_command_line

_NAME = "mtf_imaging"


class _AboveBars(logging.Handler):
    """Writes lines to stderr above the progress bars that are shown there.

    Where a record has `settings`, as `MtfImagingError` has them, a line says how they are written on a command line.
    """

    def emit(self, record):
        lines = [self.format(record), on_the_command_line(getattr(record, "settings", ()))]
        tqdm.write("\n".join(filter(None, lines)), file=sys.stderr)


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
