"""The errors that a user can cause, with a common base class.

A message says what is wrong, where, the two values, and the fix. Fixes name keyword arguments. The attribute `settings`
lists these names, so that a caller that uses other names, such as the command line, can translate them.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator


class MtfImagingError(ValueError):
    """Base class of the errors that this package raises on purpose.

    Args:
      message: what is wrong, where, the two values, and the fix.
      settings: names of the keyword arguments in the fix, such as ("batch_size", "layout"). They are arguments of
        `mtf_imaging.jobs` or of a network.

    Attributes:
      settings: the names, as a tuple.
    """

    def __init__(self, message: str, settings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.settings = tuple(settings)


class LayoutError(MtfImagingError):
    """A mesh or layout string that cannot be parsed, or a layout that is illegal for the program."""


class ShapeError(MtfImagingError):
    """A tensor with the wrong shape, dtype or dimension names for an operation."""


class NotSupportedError(MtfImagingError):
    """A meaningful request that this package does not support (yet)."""


class DataError(MtfImagingError):
    """A file or folder of images, labels or records that is missing, damaged or inconsistent."""


class CheckpointError(MtfImagingError):
    """A checkpoint that is missing or damaged, belongs to another network, or cannot be written."""


class ConfigError(MtfImagingError):
    """A setting, or a combination of settings, that is invalid."""


class TrainingError(MtfImagingError):
    """Training that cannot continue, for instance because the loss is not finite."""


class OutOfMemoryError(MtfImagingError):
    """A program that does not fit into the memory of its devices."""


class ClusterError(MtfImagingError):
    """Another process of the program, possibly on another host, that is missing, hangs, or has stopped."""


class Interrupted(MtfImagingError):
    """A run that was stopped early, for instance by a scheduler, and has saved everything that it needs to resume.

    Attributes:
      reason: what the function `stop` of the training loop returned; None if something else stopped the run.
    """

    reason: str | None = None


@contextlib.contextmanager
def about(path: str | os.PathLike) -> Iterator[None]:
    """Adds the file name to operating system errors in the block, such as a full disk."""
    try:
        yield
    except OSError as error:
        # Errors on opening a file include the file name, but errors on writing do not. Python shows the name
        # only for errors with a number.
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def reason(error: BaseException) -> str:
    """Returns a message from TensorFlow or the operating system on one line, without TensorFlow node names."""
    text = getattr(error, "strerror", None) or str(error).strip() or repr(error)
    return re.sub(r"^(\{\{.*?\}\} )+|( \[Op:\w+\].*)$", "", text.splitlines()[0])
