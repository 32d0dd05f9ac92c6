"""Every error that a user can cause: one base class, so that a caller can catch them all.

A message says where, what, both numbers by name, and the fix. The fix speaks of keyword arguments, as functions have
them, and `settings` lists those, so that a caller with other names for them can add its own.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator


class MtfImagingError(ValueError):
    """Base class of the errors that this package raises on purpose.

    Args:
      message: what is wrong, where, the two values, and the fix.
      settings: names of the keyword arguments that the fix speaks of, as ("batch_size", "layout"): those of
        `mtf_imaging.jobs`, or of a network.

    Attributes:
      settings: the same, as a tuple.
    """

    def __init__(self, message: str, settings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.settings = tuple(settings)


class LayoutError(MtfImagingError):
    """A mesh or layout string that cannot be read, or a layout that the program cannot be laid out by."""


class ShapeError(MtfImagingError):
    """A tensor of another shape, dtype or set of dimension names than the operation needs."""


class NotSupportedError(MtfImagingError):
    """Something meaningful that this package does not do (yet)."""


class DataError(MtfImagingError):
    """A file or folder of images, labels or records that is missing, damaged or inconsistent."""


class CheckpointError(MtfImagingError):
    """A checkpoint that is missing, damaged, of another network, or that cannot be written."""


class ConfigError(MtfImagingError):
    """A setting, or a combination of settings, that cannot run."""


class TrainingError(MtfImagingError):
    """Training that cannot go on, for instance because its loss is not finite."""


class OutOfMemoryError(MtfImagingError):
    """A program that its devices cannot hold."""


class ClusterError(MtfImagingError):
    """A server of another host that is missing, hangs, or has gone."""


class Interrupted(MtfImagingError):
    """A run that was told to end early, by a scheduler for instance, and has saved all that it needs to go on."""


@contextlib.contextmanager
def about(path: str | os.PathLike) -> Iterator[None]:
    """Has what the operating system says in the block, for instance of a full disk, name the file that it is about."""
    try:
        yield
    except OSError as error:
        # It is known where files are opened, and not where they are written; without a number, only the text is shown.
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def reason(error: BaseException) -> str:
    """What TensorFlow or the operating system say went wrong, in a line, without the names of TensorFlow's nodes."""
    text = getattr(error, "strerror", None) or str(error).strip() or repr(error)
    return re.sub(r"^(\{\{.*?\}\} )+|( \[Op:\w+\].*)$", "", text.splitlines()[0])
