"""Shows the log lines of the package, and the warnings of libraries, above the progress bars."""

import logging
import sys

from tqdm import tqdm

from mtf_imaging.cli.runtime.spelled import on_the_command_line

_NAME = "mtf_imaging"


class _AboveBars(logging.Handler):
    """Writes log lines to stderr above the progress bars there.

    If a record has `settings`, as an `MtfImagingError` has, a second line names their flags.
    """

    def emit(self, record):
        lines = [self.format(record), on_the_command_line(getattr(record, "settings", ()))]
        tqdm.write("\n".join(filter(None, lines)), file=sys.stderr)


def show(level: int = logging.INFO) -> None:
    """Writes log records to stderr: the package's from `level` up, and other libraries' from WARNING up."""
    logger = logging.getLogger(_NAME)
    if not logger.handlers:
        logger.addHandler(_AboveBars())
        logger.setLevel(level)
    root = logging.getLogger()
    if not root.handlers:  # otherwise absl adds a handler during a run that writes our lines a second time
        others = _AboveBars(logging.WARNING)
        others.addFilter(lambda record: not record.name.startswith(_NAME))
        root.addHandler(others)
