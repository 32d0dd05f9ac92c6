"""Case and file names: normalizes them, makes them printable, and finds unusable ones."""

import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from mtf_imaging.errors import DataError

_SHOWN = 3  # names listed in a message


def normalize_name(name: str) -> str:
    """Normalizes a name for comparison.

    A letter such as "ü" is one code point in most files, but two in names from macOS. Both look the same.

    >>> len("u\\u0308"), len(normalize_name("u\\u0308"))
    (2, 1)
    """
    return unicodedata.normalize("NFC", name)


def printable(name: str | os.PathLike) -> str:
    """Returns a name with escapes for bytes that are not UTF-8 and for control characters.

    >>> print(printable("M\\udcfcller\\n.nii"))
    M\\xfcller\\n.nii
    """
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) == "Cc" else c for c in text)


def is_text(name: str | os.PathLike) -> bool:
    """Returns whether a name is text in UTF-8 without control characters, such as a line feed."""
    text = os.fspath(name)
    return not any(unicodedata.category(c) in ("Cc", "Cs") for c in text)


def path_in(folder: Path, file: Path) -> str:
    """Returns the path of a file relative to a folder, with slashes; the absolute path of a file outside of it."""
    return (file.relative_to(folder) if file.is_relative_to(folder) else file.absolute()).as_posix()


def check_names(folder: str | os.PathLike, names: Iterable[str]) -> None:
    """Checks that names can be written to text files and compared.

    Args:
      folder: the folder of the files, for messages.
      names: the names of the files, relative to the folder.

    Raises:
      DataError: names are not text in UTF-8, or have control characters.
    """
    bad = sorted(name for name in names if not is_text(name))
    if bad:
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        what = f"{len(bad)} name(s) are not text in UTF-8 without control characters"
        fix = "rename these files; names in other encodings often come from archives of other systems"
        raise DataError(f"{printable(folder)}: {what}: {', '.join(map(printable, bad[:_SHOWN]))}{more}. Fix: {fix}.")


def check_key(key: str, where: str | os.PathLike) -> None:
    """Checks that a case name, which becomes part of file names, is a plain name.

    Args:
      key: the case name.
      where: the file that names it, for messages.

    Raises:
      DataError: the name is empty, is or contains a path, or is not text.
    """
    if not key.strip() or key in (".", "..") or any(c in key for c in "/\\") or not is_text(key):
        what = f"the name of a case is '{printable(key)}', which cannot be part of a file name"
        raise DataError(f"{where}: {what}. Fix: use a name without slashes and control characters.")


def differ_only_in(a: str, b: str) -> str:
    """Describes the difference between two similar names, for messages; "" if they differ in more than their form.

    >>> differ_only_in("M\\u00fcller", "Mu\\u0308ller"), differ_only_in("A.nii", "a.nii"), differ_only_in("a", "b")
    ('Unicode normalization', 'upper and lower case', '')
    """
    if a != b and normalize_name(a) == normalize_name(b):
        return "Unicode normalization"
    if a != b and normalize_name(a).casefold() == normalize_name(b).casefold():
        return "upper and lower case"
    return ""
