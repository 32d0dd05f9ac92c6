"""Temporary names of unfinished files and folders, and the deletion of leftovers from killed writers."""

import contextlib
import functools
import os
import platform
import shutil
import zlib
from pathlib import Path

from mtf_imaging.files.contained import MAX_NAME

_MARK = ".partial-"
OLD = "-old"  # ends the temporary name of a folder that is being replaced
_DIGITS = 8  # characters of a checksum in a name


def partial_path(path: Path) -> Path:
    """Returns a temporary path of this process next to `path`.

    The name, such as `.partial-1f2e3d4c-<pid>-volume-3.nii.gz`, has at most the 255 bytes that file systems store. A
    longer name is truncated at the beginning.
    """
    start, end = f"{_start()}{os.getpid()}-", path.name
    room = MAX_NAME - len(os.fsencode(f"{start}{OLD}"))
    if len(os.fsencode(end)) > room:
        start += f"{_checksum(os.fsencode(end))}-"  # long names may differ only at the beginning
        while len(os.fsencode(end)) > room - _DIGITS - 1:
            end = end[1:]
    return path.with_name(f"{start}{end}")


def is_partial(path: str | os.PathLike) -> bool:
    """Returns whether `path` is an unfinished file; such files are never read."""
    return Path(path).name.startswith(_MARK)


def remove(path: str | os.PathLike) -> None:
    """Deletes a file or a whole folder, if it exists."""
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@functools.lru_cache(maxsize=1024)  # once per process, because listing a large folder takes time
def remove_leftovers(folder: Path) -> None:
    """Deletes the unfinished files and folders in a folder whose writers ran on this machine and have ended."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            number = name.removeprefix(_start()).partition("-")[0]
            if name.startswith(_start()) and number.isdecimal() and not _runs(int(number)):
                with contextlib.suppress(OSError):  # another process may delete it, too
                    remove(folder / name)


def remove_all(folder: Path) -> None:
    """Deletes all unfinished files in a folder that only this process writes to."""
    for path in [*filter(is_partial, folder.glob("*"))]:
        remove(path)


@functools.cache
def _start() -> str:
    """Returns the prefix of temporary names, which is equal in all processes that can see each other's PIDs.

    Several machines, or several containers on one machine, can write to one folder.
    """
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not Linux
        numbers = 0
    return f"{_MARK}{_checksum(f'{platform.node()} {numbers}'.encode())}-"


def _checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):0{_DIGITS}x}"


def _runs(number: int) -> bool:
    """Returns whether a process with this PID exists."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # owned by another user
        return True
    return True
