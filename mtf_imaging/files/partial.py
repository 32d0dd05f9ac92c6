"""Temporary names of unfinished files and folders, and the deletion of leftovers from killed writers.

A temporary name contains the machine, the PID and the start time of its process. A leftover is deleted only if this
proves that its process has ended: several machines, containers and processes may write to one folder.
"""

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
from pathlib import Path

from mtf_imaging.files.contained import MAX_NAME

_MARK = ".partial-"
_DIGITS = 12  # characters of a checksum in a name
# The machine, the PID, the start time, and whether it is an unfinished file or a folder of `replaced_path`.
_NAME = re.compile(rf"{re.escape(_MARK)}([0-9a-f]{{{_DIGITS}}})-(\d{{1,7}})-(\d+)([-.])", re.ASCII)
_UNFINISHED, _REPLACED = "-", "."


def partial_path(path: Path) -> Path:
    """Returns a temporary path of this process next to `path`.

    The name, such as `.partial-1f2e3d4c5b6a-<pid>-<start time>-volume-3.nii.gz`, has at most the 255 bytes that file
    systems store. A longer name is truncated at the beginning.
    """
    start, end = f"{_start()}{_UNFINISHED}", path.name
    room = MAX_NAME - len(start)
    if len(os.fsencode(end)) > room:
        start += f"{_checksum(os.fsencode(end))}-"  # long names may differ only at the beginning
        while len(os.fsencode(end)) > room - _DIGITS - 1:
            end = end[1:]
    return path.with_name(f"{start}{end}")


def kept_path(path: Path) -> Path:
    """Returns a temporary path next to `path` that is not deleted with the leftovers of ended processes."""
    return path.with_name(f"{_MARK}kept-{_checksum(os.fsencode(path.name))}")


def replaced_path(path: Path) -> Path:
    """Returns a path for what `path` names while it is replaced: the same name in a temporary folder next to it."""
    return path.with_name(f"{_start()}{_REPLACED}{_checksum(os.fsencode(path.name))}") / path.name


def put_back(folder: Path) -> None:
    """Ends a replacement: gives the content of a folder of `replaced_path` its name back, or deletes it if replaced."""
    for old in [*folder.iterdir()]:
        path = folder.with_name(old.name)
        if os.path.lexists(path):
            unwanted = partial_path(path)  # if this process is killed, nobody puts back what it has half deleted
            os.replace(old, unwanted)
            remove(unwanted)
        else:
            os.replace(old, path)
    folder.rmdir()


def is_partial(path: str | os.PathLike) -> bool:
    """Returns whether `path` is an unfinished file; such files are never read."""
    return Path(path).name.startswith(_MARK)


def remove(path: str | os.PathLike) -> None:
    """Deletes a file, a link or a whole folder, if it exists."""
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path, is_alone: bool = False) -> None:
    """Deletes the unfinished files and folders that ended processes have left, and completes their replacements.

    Args:
      folder: the folder, without its subfolders.
      is_alone: whether no other process writes to the folder. Otherwise, leftovers remain if their processes ran on
        another machine, in another container, or before this machine was restarted, because they may still run.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = _NAME.match(name)
            if match and (is_alone or (match[1] == _host() and _has_ended(int(match[2]), match[3]))):
                path = folder / name
                with contextlib.suppress(OSError):  # another process may delete it, too
                    (put_back if match[4] == _REPLACED and not path.is_symlink() else remove)(path)


# Once per process, because listing a large folder takes time.
remove_leftovers_once = functools.lru_cache(maxsize=1024)(remove_leftovers)


def _start() -> str:
    """Returns the prefix of the temporary names of this process."""
    return f"{_MARK}{_host()}-{os.getpid()}-{_start_time(os.getpid()) or 0}"


@functools.cache
def _host() -> str:
    """Returns a checksum that is equal in all processes that can see each other's PIDs, and only in these.

    Names of machines are not unique, and several containers on one machine have PIDs of their own.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()  # unique for each start of each machine
        where = f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # not Linux
        import uuid

        where = f"{platform.node()} {uuid.getnode()}"
    return _checksum(where.encode())


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def _has_ended(pid: int, start_time: str) -> bool:
    """Returns whether a process on this machine has ended, even if another process has its PID now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # owned by another user
        pass
    return _start_time(pid) not in (start_time, None)


def _start_time(pid: int) -> str | None:
    """Returns the time at which a process started, in clock ticks; "" if it only waits for its parent; None if unknown.

    Linux can hide the processes of other users, and other systems have no /proc.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if state in ("Z", "X") else fields[18]
