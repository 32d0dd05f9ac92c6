"""Runs commands as new processes would, with a clean gin configuration."""

import contextlib
import shlex

import gin

from mtf_imaging.cli.config import gin_config
from mtf_imaging.cli.main import main


def run(*words):
    """Runs a command; returns its exit code."""
    gin.clear_config()
    try:
        return main([str(word) for word in words])
    finally:
        gin.clear_config()


def run_line(line):
    """Runs a command line without its first word; returns its exit code."""
    return run(*shlex.split(line))


@contextlib.contextmanager
def bound(*jobs):
    """Binds the gin files of jobs within a `with` block."""
    gin.clear_config()
    try:
        gin_config.bind([gin_config.find_gin_file(job) for job in jobs], [], {})
        yield
    finally:
        gin.clear_config()
