"""The memory budget of a process, which bounds everything that a file declares before it is decoded."""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.files.reading import Fault

INFLATED = 1032  # the largest ratio of the zlib, gzip and ZIP formats
_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


class _Processes:
    """The number of processes that share the memory: this one, or the workers of its parent."""

    number = 1


def share_memory(processes: int) -> None:
    """Divides the budget of this process by the number of processes that work at the same time."""
    _Processes.number = processes


def memory_budget() -> int:
    """Returns the bytes that this process may use."""
    return machine_memory() // _Processes.number


@functools.cache
def machine_memory() -> int:
    """Returns the bytes of memory of this machine or, if it is smaller, the limit of the process's cgroup."""
    limits = [sys.maxsize, *_cgroup_limits()]
    with contextlib.suppress(AttributeError, OSError, ValueError):  # this system does not report its memory
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits)


def _cgroup_limits() -> Iterator[int]:
    """Yields the limits of this process's cgroup and of its parents, in versions 1 and 2."""
    with contextlib.suppress(OSError):
        for line in _OWN.read_text().splitlines():
            _, names, own = line.split(":", 2)
            if names and "memory" not in names.split(","):
                continue
            root, file = (_CGROUPS / "memory", "memory.limit_in_bytes") if names else (_CGROUPS, "memory.max")
            folder = root / own.lstrip("/")
            for each in (folder, *folder.parents):
                if each.is_relative_to(root):
                    with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                        yield int((each / file).read_text())


def check_room(declared: str, needed: int, size: int, ratio: int = 1, at_once: int = 0) -> None:
    """Checks that a file can contain what its header declares, and that it fits into memory; call it before decoding.

    Args:
      declared: the size in the header, for the message.
      needed: bytes of this size.
      size: bytes of the file.
      ratio: the largest ratio of its compression; 1 for no compression.
      at_once: bytes of memory that reading it needs at a time, with copies.

    Raises:
      Fault: the file is too small, or the memory.
    """
    if needed > ratio * size:
        what = "bytes" if ratio == 1 else "compressed bytes"
        raise Fault(f"its header declares {declared}, but the file has {size} {what}. It is truncated or damaged")
    if at_once > memory_budget():
        raise Fault(
            f"its header declares {declared}, which need about {at_once / 1e9:.3g} GB to read, but this process may "
            f"use {memory_budget() / 1e9:.3g} GB of memory",
            "use fewer workers if there are several, a machine with more memory, or smaller files",
            ["workers"],
        )
