"""New folders that get their name only after they are complete and never replace an existing one."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_folder


def check_new_folder(path: str | Path, setting: str = "output") -> None:
    """Checks that a folder does not exist, or is empty.

    Args:
      path: the folder.
      setting: the keyword argument that names the folder.

    Raises:
      DataError: a file or a non-empty folder has this name.
    """
    path = Path(path)
    if path.is_dir() and not any(path.iterdir()):
        return
    if os.path.lexists(path):
        raise DataError(f"{path}: already exists, and is never replaced. Fix: name a new folder.", [setting])


@contextlib.contextmanager
def new_folder(path: str | Path, setting: str = "output") -> Iterator[Path]:
    """Yields a temporary folder next to `path` and renames it to `path` if the block succeeds.

    If the block raises an error, the temporary folder is deleted. All files are flushed to disk before the rename.

    Args:
      path: the folder. Missing parent folders are created.
      setting: the keyword argument that names the folder.

    Yields:
      The folder to write to, which exists.

    Raises:
      DataError: a file or a non-empty folder has this name, possibly created during the block.
    """
    check_new_folder(path, setting)
    with atomic_folder(path) as temporary:
        yield temporary
        check_new_folder(path, setting)
