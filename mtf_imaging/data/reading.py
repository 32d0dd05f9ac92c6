"""Errors that name the file: permissions and disks that keep it from being read, memory that cannot hold it."""

import contextlib
import errno
import os
from collections.abc import Iterator

from mtf_imaging.errors import DataError


@contextlib.contextmanager
def access_named(path: str | os.PathLike) -> Iterator[None]:
    """Turns what the operating system refuses in the block into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not the operating system's: gzip's, for instance
            raise
        is_barred = error.errno in (errno.EACCES, errno.EPERM)
        fix = "allow this user to read it" if is_barred else "check the path and the disk"
        raise DataError(f"{path}: {error.strerror}. Fix: {fix}.") from error


@contextlib.contextmanager
def memory_named(path: str | os.PathLike) -> Iterator[None]:
    """Turns running out of memory in the block into a DataError that names the volume that takes it."""
    try:
        yield
    except MemoryError as error:
        what = f" ({error})" if str(error) else ""
        raise DataError(
            f"{path}: too little memory{what}. Fix: free some, fewer --workers where there are several, or a machine "
            "with more."
        ) from error
