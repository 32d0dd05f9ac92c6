"""Paths that must stay in their output folder: names derived from data, and links in folders of others."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from mtf_imaging.errors import ConfigError, DataError

MAX_NAME = 255  # the longest file name on common file systems, in bytes
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


class NameTooLong(DataError):
    """A file name that file systems cannot store."""


def contained(folder: str | os.PathLike, *parts: str) -> Path:
    r"""Returns the path of an output file whose name is derived from data.

    All commands build such paths with this function, because names can come from an untrusted file. A name with `/` is
    a path below the folder, such as `city/photo.png`. On all systems, `\` counts as a separator, too.

    >>> str(contained("out", "pictures", "city/photo.png"))
    'out/pictures/city/photo.png'

    Args:
      folder: the output folder, which may be a symbolic link.
      *parts: names below the folder.

    Raises:
      DataError: a name is empty, absolute, or contains `..` or a null character; or a symbolic link leads out of the
        folder.
      NameTooLong: a part of the path has more than 255 bytes.
    """
    folder = Path(folder)
    for name in parts:
        if fault := _fault(name):
            raise DataError(
                f"{name!r}: {fault}, so its file would not lie in the output folder {folder}. Fix: rename the image, "
                "or correct its name in the file that lists it, to a path below the folder of the images."
            )
    path = folder.joinpath(*parts)
    size = max(len(os.fsencode(part)) for name in parts for part in name.split("/"))
    if size > MAX_NAME:
        raise NameTooLong(
            f"{path}: this name has {size} bytes, but file systems store at most {MAX_NAME}. "
            "Fix: give the image a shorter name."
        )
    # A link at `path` itself is safe: atomic writes replace the link, not its target.
    below = path.parents[: len(path.parts) - len(folder.parts) - 1]
    if any(map(os.path.islink, below)) and not path.parent.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{path}: a symbolic link leads out of the output folder, to {path.parent.resolve()}. "
            "Fix: remove the link, or write to another folder."
        )
    return path


def check_no_links(paths: Iterable[Path], setting: str) -> None:
    """Checks that none of the paths is a symbolic link, because links in a run from others could lead to your files.

    Args:
      paths: paths below a folder that the user has named. The folder itself may be a link.
      setting: the keyword argument that names the folder.

    Raises:
      ConfigError: a path is a link.
    """
    for path in paths:
        if path.is_symlink():
            raise ConfigError(
                f"{path}: is a symbolic link to {os.readlink(path)}, and this command would write and delete files "
                f"there. Fix: remove the link, or choose another {setting}.",
                [setting],
            )


def _fault(name: str) -> str:
    """Returns the fault of a name, or an empty string."""
    if "\0" in name:
        return "the name contains a null character"
    parts = re.split(r"[\\/]", name)
    if name[:1] in ("/", "\\") or _DRIVE.match(name):
        return "the name is an absolute path"
    if ".." in parts:
        return "the name contains '..'"
    if all(part in ("", ".") for part in parts):
        return "the name is empty"
    return ""
