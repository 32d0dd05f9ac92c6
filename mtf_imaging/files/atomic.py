"""Atomic writes: a file or folder gets its final name only after it is complete."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import about
from mtf_imaging.files.interrupts import deferred_interrupts
from mtf_imaging.files.partial import partial_path, put_back, remove, remove_leftovers_once, replaced_path


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path in the folder of `path` and renames it to `path` if the block succeeds.

    The temporary name keeps the suffix, because writers choose the format by the suffix. It is in the same folder,
    because a rename is atomic only within one file system. If the block raises an error, the temporary file is deleted
    and an older file at `path` remains unchanged. The content is flushed to disk before the rename, so a power failure
    cannot leave an empty file. Temporary files of killed processes are deleted.

    Args:
      path: the final path. A missing folder is created.

    Yields:
      The path to write to.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers_once(path.parent)
    temporary = partial_path(path)
    try:
        with about(path):
            temporary.unlink(missing_ok=True)  # a link to another file would be followed
            yield temporary
            sync(temporary)
        os.replace(temporary, path)
    finally:
        with deferred_interrupts():
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a new, temporary folder next to `path` and renames it to `path` if the block succeeds.

    If the block raises an error, the temporary folder is deleted and an older folder at `path` remains unchanged. All
    files are flushed to disk before the rename. An older folder cannot be replaced in one step: it gets a temporary
    name first. If the process is killed at this moment, the next writer to `path.parent` gives it its name back.

    Args:
      path: the final path. A missing parent folder is created.

    Yields:
      The path of the folder to write to.
    """
    path = Path(path)
    remove_leftovers_once(path.parent)
    temporary = partial_path(path)
    try:
        with about(path):
            remove(temporary)
            temporary.mkdir(parents=True)
            yield temporary
            for folder, _, files in os.walk(temporary, topdown=False):
                for file in files:
                    sync(Path(folder, file))
                sync(Path(folder))
        with deferred_interrupts():
            _replace(temporary, path)
        sync(path.parent)
    finally:
        with deferred_interrupts():
            remove(temporary)


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    """Writes `data` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def _replace(folder: Path, path: Path) -> None:
    """Renames a folder to `path` and deletes the previous folder."""
    if not os.path.lexists(path):
        os.replace(folder, path)
        return
    old = replaced_path(path)
    old.parent.mkdir()
    try:
        os.replace(path, old)
        os.replace(folder, path)
    finally:
        put_back(old.parent)


def sync(path: str | os.PathLike) -> None:
    """Flushes a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
