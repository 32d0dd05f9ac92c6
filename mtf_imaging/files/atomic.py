"""Atomic writes: a file gets its final name only after it is complete."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import about

_MARK = ".partial-"


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path in the folder of `path` and renames it to `path` if the block succeeds.

    The temporary name (such as `.partial-<pid>-volume-3.nii.gz`) keeps the suffix, because writers choose the format by
    the suffix. It is in the same folder, because a rename is atomic only within one file system. If the block raises an
    error, the temporary file is deleted and an older file at `path` remains unchanged. The content is flushed to disk
    before the rename, so a power failure cannot leave an empty file.

    Args:
      path: the final path. A missing folder is created.

    Yields:
      The path to write to.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{_MARK}{os.getpid()}-{path.name}")
    try:
        with about(path):
            yield temporary
            _sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    """Writes `data` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def is_partial(path: str | os.PathLike) -> bool:
    """Returns whether `path` is an unfinished file of a killed writer; such files are never read."""
    return Path(path).name.startswith(_MARK)


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
