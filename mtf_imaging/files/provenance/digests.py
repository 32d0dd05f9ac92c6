"""Digests of files, folders and tables."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

SHOWN = 16  # hexadecimal digits in texts; JSON files contain all 64


def digest(path: Path) -> str | None:
    """Returns the SHA-256 of a file, or of all files in a folder with their names; None if the path does not exist."""
    if path.is_dir():
        whole = hashlib.sha256()
        for part in sorted(part for part in path.rglob("*") if part.is_file()):
            whole.update(f"{part.relative_to(path).as_posix()}\n{digest(part)}\n".encode())
        return whole.hexdigest()
    if not path.exists():
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_digest(table: Mapping[str, str | None]) -> str:
    """Returns the SHA-256 of a table, which does not depend on the order of its rows.

    >>> table_digest({"a": "1", "b": None}) == table_digest({"b": None, "a": "1"}) != table_digest({"a": "1"})
    True
    """
    rows = sorted(f"{name}\t{'' if value is None else value}\n" for name, value in table.items())
    return hashlib.sha256("".join(rows).encode("utf-8", "surrogateescape")).hexdigest()
