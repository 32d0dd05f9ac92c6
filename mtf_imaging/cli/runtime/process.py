"""Checks the requirements of every command on its process."""

import os
import sys

from mtf_imaging.errors import ConfigError


def check_process() -> None:
    """Checks that Python keeps docstrings, which describe the flags, and that the working folder exists.

    Raises:
      ConfigError: one of these requirements is not met.
    """
    if sys.flags.optimize > 1:
        raise ConfigError(
            "Python runs without docstrings (PYTHONOPTIMIZE=2 or -OO), which describe the flags of the commands. "
            "Fix: set PYTHONOPTIMIZE to 1, or unset it."
        )
    try:
        os.getcwd()
    except OSError as error:
        raise ConfigError(f"the working folder: {error.strerror}. Fix: change to a folder that exists.") from error
