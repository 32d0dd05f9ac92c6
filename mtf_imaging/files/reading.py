"""Context managers that name the file in errors, and the checks of a file that comes before it is read.

A reader of a format states what is wrong with a file as a `Fault`. Only the border of the format, `faults_named` or
`damage_named`, adds the file and the fix.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator

from mtf_imaging.errors import DataError, MtfImagingError

FETCH = "fetch the file again"
# Kinds of paths other than files, folders and links. Opening one of these can block forever.
_SPECIAL = {
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


# Small files that stand for files that were not fetched, by their first bytes: the tool and its command.
_POINTERS = {b"version https://git-lfs": "Git LFS: git lfs pull", b"/annex/objects/": "git-annex: git annex get"}
_POINTER_BYTES = 1024


class Fault(ValueError):
    """What is wrong with a file.

    Args:
      what: a clause whose subject is the file, such as "its header has no PixelSpacing".
      fix: the fix; "" for the fix of the block that names the file.
      settings: names of the keyword arguments in the fix.
    """

    def __init__(self, what: str, fix: str = "", settings: Iterable[str] = ()) -> None:
        super().__init__(what)
        self.fix, self.settings = fix, tuple(settings)


@contextlib.contextmanager
def faults_named(path: str | os.PathLike, fix: str = FETCH) -> Iterator[None]:
    """Converts a Fault in the block into a DataError that names the file.

    Args:
      path: the file.
      fix: the fix of faults that state none.
    """
    try:
        yield
    except Fault as fault:
        raise DataError(f"{path}: {fault}. Fix: {fault.fix or fix}.", fault.settings) from fault


@contextlib.contextmanager
def damage_named(path: str | os.PathLike, kind: str, fix: str = FETCH) -> Iterator[None]:
    """Converts every error of a block that reads a file into a DataError that names the file.

    Args:
      path: the file.
      kind: the format, for errors of libraries, which are of many types.
      fix: the fix.

    Raises:
      DataError: the path names a pipe, a socket or a device; the file cannot be accessed; or the block raises an error.
    """
    try:
        with reading_named(path), faults_named(path, fix):
            yield
    except (MtfImagingError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
        what = f"cannot be read as {kind}: it is damaged or has another format ({reason})"
        raise DataError(f"{path}: {what}. Fix: {fix}.") from error


@contextlib.contextmanager
def access_named(path: str | os.PathLike) -> Iterator[None]:
    """Converts an operating system error into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not from the operating system but, for instance, from gzip
            raise
        is_barred = error.errno in (errno.EACCES, errno.EPERM)
        fix = "allow this user to read it" if is_barred else "check the path and the disk"
        raise DataError(f"{path}: {error.strerror}. Fix: {fix}.") from error


def check_not_special(path: str | os.PathLike) -> None:
    """Checks that a path, if it exists, is a file or a folder; call this before opening a path from the user.

    Raises:
      DataError: the path names a pipe, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # opening the path reports the error
        return
    for is_special, what in _SPECIAL.items():
        if is_special(mode):
            raise DataError(f"{path}: is {what}, not a file. Fix: give the path of a file.")


def check_none_special(prefix: str | os.PathLike) -> None:
    """Does the same for all paths that begin with a prefix; call this before TensorFlow opens a checkpoint."""
    folder, name = os.path.split(prefix)
    with contextlib.suppress(OSError):  # opening the checkpoint reports the error
        for other in os.listdir(folder or os.curdir):
            if other.startswith(name):
                check_not_special(os.path.join(folder, other))


@contextlib.contextmanager
def reading_named(path: str | os.PathLike) -> Iterator[None]:
    """Checks a file before the block reads it, and converts errors as `access_named` does.

    Raises:
      DataError: the path names a pipe, a socket or a device, or the operating system refuses the access.
    """
    check_not_special(path)
    with access_named(path):
        check_fetched(path)
        yield


def check_fetched(path: str | os.PathLike) -> None:
    """Raises DataError if a file is a pointer of Git LFS or git-annex, which may be a link to a missing file."""
    start = b""
    if os.path.isfile(path) and os.path.getsize(path) < _POINTER_BYTES:
        with open(path, "rb") as file:
            start = file.read(_POINTER_BYTES)
    elif os.path.islink(path) and not os.path.exists(path):
        start = os.fsencode(os.readlink(os.fspath(path))).rpartition(b".git")[2]
    for tool, command in (text.split(": ") for first, text in _POINTERS.items() if start.startswith(first)):
        raise DataError(f"{path}: is a pointer of {tool}, not the file itself. Fix: fetch it with {command}.")


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
