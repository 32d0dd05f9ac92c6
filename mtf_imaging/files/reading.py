"""Context managers that name the file in errors about access and memory."""

import contextlib
import errno
import os
from collections.abc import Iterator

from mtf_imaging.errors import DataError


@contextlib.contextmanager
def access_named(path: str | os.PathLike) -> Iterator[None]:
    """Converts an error of the operating system into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not from the operating system but, for instance, from gzip
            raise
        is_barred = error.errno in (errno.EACCES, errno.EPERM)
        fix = "allow this user to read it" if is_barred else "check the path and the disk"
        raise DataError(f"{path}: {error.strerror}. Fix: {fix}.") from error


@contextlib.contextmanager
def memory_named(path: str | os.PathLike) -> Iterator[None]:
    """Converts a MemoryError into a DataError that names the volume."""
    try:
        yield
    except MemoryError as error:
        what = f" ({error})" if str(error) else ""
        raise DataError(
            f"{path}: not enough memory{what}. Fix: free memory, use fewer workers if there are several, or use a "
            "machine with more memory.",
            settings=["workers"],
        ) from error


@contextlib.contextmanager
def errors_named(path: str | os.PathLike) -> Iterator[None]:
    """Adds the name of an image to a DataError in the block, and converts a MemoryError into one."""
    with memory_named(path):
        try:
            yield
        except DataError as error:
            raise DataError(f"{path}: {error}", error.settings) from error
