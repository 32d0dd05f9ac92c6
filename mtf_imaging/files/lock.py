"""One writer a folder: a lock that ends with its process, however that ends."""

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
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # of file systems that have none


@contextlib.contextmanager
def held(folder: str | Path, setting: str = "output_dir", needed: bool = False) -> Iterator[None]:
    """Holds a folder for this process within the block; made where it is missing, and gone again if nothing came of it.

    The operating system frees the lock with the process, so a run that is killed leaves none behind; the file that it
    leaves means nothing. Readers of the folder need no lock.

    Args:
      folder: the folder.
      setting: the keyword argument by which the user named it.
      needed: whether to refuse where the system has no such locks, rather than to go without.

    Raises:
      ConfigError: another process holds it; says which.
      OSError: the folder cannot be written to.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    file = _locked(folder / NAME, setting, needed)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # a read-only folder by now, or one that holds something: both are well
            (folder / NAME).unlink()
            if is_new:
                folder.rmdir()
        file.close()  # frees it, after the name is gone: nobody is to lock a file that is about to go


def _locked(path: Path, setting: str, needed: bool) -> TextIO:
    """The file at `path`, open and locked."""
    while True:
        file = open(path, "a+")  # noqa: SIM115  open as long as the lock is held
        try:
            _lock(file, path.parent, setting, needed)
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except FileNotFoundError:
            same = False
        except BaseException:
            file.close()
            raise
        if same:
            with contextlib.suppress(OSError):  # a full disk: whoever is refused learns no more than that
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
            return file
        file.close()  # its holder took its name away just now: that lock would keep nobody out


def _lock(file: TextIO, folder: Path, setting: str, needed: bool) -> None:
    try:
        import fcntl
    except ImportError:
        if not needed:
            return
        raise ConfigError(f"{folder}: is locked as POSIX systems do. Fix: on Windows, use WSL 2.") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise ConfigError(
            f"{folder}: another run is writing to it, {file.read() or 'of which no more is known'}. "
            f"Fix: wait until it ends, or end it, or give this one another {setting}.",
            settings=[setting],
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _logger.warning(
            "%s: its file system has no locks (%s), so nothing keeps two runs apart there. "
            "Fix: see to it that only one writes to it.",
            folder,
            error.strerror,
        )
