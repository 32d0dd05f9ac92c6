"""A lock that allows one writer per folder and that the operating system releases when its process ends."""

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from mtf_imaging.errors import ConfigError

_logger = logging.getLogger(__name__)
NAME = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # raised by file systems without locks


@contextlib.contextmanager
def held(folder: str | Path, setting: str = "output_dir", needed: bool = False) -> Iterator[None]:
    """Locks a folder for this process within the block.

    A missing folder is created, and deleted again if the block leaves it empty. The operating system releases the lock
    when the process ends, so a killed run does not block the folder. A lock file without a lock has no effect. Readers
    of the folder do not need a lock.

    Args:
      folder: the folder.
      setting: the keyword argument that names the folder.
      needed: whether to raise an error if the operating system has no file locks. Otherwise the block runs without one.

    Raises:
      ConfigError: another process has locked the folder, or it is a file. The error names the process.
      OSError: the folder is not writable.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    if not is_new and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file, not a folder. Fix: give a folder as {setting}.", [setting])
    folder.mkdir(parents=True, exist_ok=True)
    file = _locked(folder / NAME, setting, needed)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder has become read-only, or it is not empty
            (folder / NAME).unlink()
            if is_new:
                folder.rmdir()
        file.close()  # releases the lock only now, so that no process locks the file before it is deleted


def _locked(path: Path, setting: str, needed: bool) -> TextIO:
    """Opens and locks the file at `path`, and returns it."""
    while True:
        # The file is emptied below, so a link in an untrusted folder could erase another file.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = open(os.open(path, flags, 0o666), "a+")  # noqa: SIM115  stays open while the folder is locked
        try:
            _lock(file, path.parent, setting, needed)
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except FileNotFoundError:
            same = False
        except BaseException:
            file.close()
            raise
        if same:
            with contextlib.suppress(OSError):  # if the disk is full, errors in other processes cannot name this one
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
            return file
        file.close()  # the previous process has just deleted this file, so its lock would protect nothing


def _lock(file: TextIO, folder: Path, setting: str, needed: bool) -> None:
    try:
        import fcntl
    except ImportError:
        if not needed:
            return
        raise ConfigError(
            f"{folder}: this operating system has no POSIX file locks. Fix: on Windows, use WSL 2."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise ConfigError(
            f"{folder}: another run is writing to this folder ({file.read() or 'unknown process'}). "
            f"Fix: wait until that run ends, stop it, or choose another {setting}.",
            settings=[setting],
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _logger.warning(
            "%s: the file system has no locks (%s), so two runs can write to this folder at once. "
            "Fix: make sure that only one run writes to it.",
            folder,
            error.strerror,
        )
