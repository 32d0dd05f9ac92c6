"""The git commit of the sources. Uses only the standard library, because `setup.py` runs this file."""

import os
import re
import subprocess
from pathlib import Path

FILE = "commit.txt"  # in the package of a wheel or source archive, where `setup.py` writes it
MODIFIED = "-dirty"  # marks a commit whose files have changed since
_COMMIT = re.compile(rf"[0-9a-f]{{40}}(?:{MODIFIED})?")
_TIMEOUT = 10  # seconds


def read_commit(root: str | Path) -> str | None:
    """Returns the commit of the sources in a folder.

    Args:
      root: the folder that contains the package: a clone, a source archive, or a folder of installed packages.

    Returns:
      The commit, 40 hexadecimal digits, followed by `MODIFIED` if tracked files have changed since. None if it is
      unknown, for instance because git is missing.
    """
    root = Path(root)
    found = _stored(root / "mtf_imaging" / FILE) or _described(root)
    return found if found and _COMMIT.fullmatch(found) else None


def _stored(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _described(root: Path) -> str:
    """Returns the commit of a clone from git; "" if the folder is not a clone, or git fails."""
    if not (root / ".git").exists():  # a parent folder may be the repository of another project
        return ""
    commit = _git(root, "rev-parse", "HEAD")
    return f"{commit}{MODIFIED}" if commit and _git(root, "status", "-s", "-uno") else commit


def _git(root: Path, *words: str) -> str:
    """Returns the output of a git command in a folder; "" if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # git writes nothing
    try:
        return subprocess.check_output(
            ["git", "-C", str(root), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_TIMEOUT,
        ).strip()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
