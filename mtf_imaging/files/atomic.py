"""Files that appear under their final name only when they are whole."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import about

_MARK = ".partial-"


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path`; renames it to `path` when the block ends well.

    The temporary name ends as the final one does (`.partial-<pid>-volume-3.nii.gz`), because writers choose the format
    by the suffix, and lies in the same folder, because a rename is atomic within one file system only. If the block
    raises, nothing stays under either name and an older file at `path` is left as it was. What was written is on the
    disk before it gets its name, so that a machine that goes down leaves no empty file either.

    Args:
      path: the final path; its folder is made where it is missing.

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
    """Writes `data` to `path`, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def is_partial(path: str | os.PathLike) -> bool:
    """Whether `path` is what a killed writer left behind; such files are never read."""
    return Path(path).name.startswith(_MARK)


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
