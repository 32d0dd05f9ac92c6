"""Lets the package's log lines be seen, as they are."""

import logging
import sys


def show() -> None:
    """Writes what the package logs, from INFO up, to stderr."""
    logger = logging.getLogger("mtf_imaging")
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
