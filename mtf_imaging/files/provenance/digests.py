"""Digests of files, folders and tables."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

SHOWN = 16  # hexadecimal digits in texts; JSON files contain all 64


class Stamp(NamedTuple):
    """The identity of a file, or of an image with all of its files.

    Attributes:
      name: the name of the file or folder, without its place.
      sha256: its digest; None if it does not exist.
    """

    name: str
    sha256: str | None


def digest(path: Path, files: Iterable[Path] | None = None) -> str | None:
    """Returns the SHA-256 of a file, or of several files with their names; None if the path does not exist.

    `data.listing.image_files.image_digest` returns the digest of an image, whose voxels may be in another file.

    Args:
      path: a file or a folder.
      files: the files to include, which are in the folder, or beside the file; None for the file itself, or for all
        files in the folder.
    """
    if not path.exists():
        return None
    if files is None:
        files = (part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
    if (listed := sorted(files)) != [path]:
        folder, whole = path if path.is_dir() else path.parent, hashlib.sha256()
        for part in listed:
            whole.update(f"{part.relative_to(folder).as_posix()}\n{digest(part)}\n".encode())
        return whole.hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_digest(table: Mapping[str, str | None]) -> str:
    """Returns the SHA-256 of a table, which does not depend on the order of its rows.

    >>> table_digest({"a": "1", "b": None}) == table_digest({"b": None, "a": "1"}) != table_digest({"a": "1"})
    True
    """
    rows = sorted(f"{name}\t{'' if value is None else value}\n" for name, value in table.items())
    return hashlib.sha256("".join(rows).encode("utf-8", "surrogateescape")).hexdigest()
