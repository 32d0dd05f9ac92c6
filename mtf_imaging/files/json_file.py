"""Reads JSON files, with errors that name the file.

If an object repeats a key, Python's parser silently keeps only the last entry. Deep nesting raises a RecursionError.
Here, both raise a DataError.
"""

import collections
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import memory_named
from mtf_imaging.files.text_file import MAX_BYTES, decode_text, read_regular

_CORRECT = "correct it"
# Escapes: a surrogate pair is a character; a lone surrogate, captured by the group, cannot be encoded.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def read_json(
    path: str | Path,
    fix: str = _CORRECT,
    convert: Callable[[dict[str, Any]], Any] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Reads a JSON file in UTF-8, with or without a byte order mark.

    Args:
      path: the file.
      fix: the fix, for messages about its contents.
      convert: a function that replaces each object, for instance with a smaller one.
      max_bytes: the largest size that is read.

    Raises:
      DataError: the file is missing, unreadable, too large, not a regular file, not valid JSON in UTF-8, nested too
        deeply, or has an object that repeats a key.
    """
    return parse_json(read_regular(path, max_bytes), path, fix, convert)


def read_object(path: str | Path, fix: str = _CORRECT, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Reads a JSON file that contains an object.

    Args:
      path: the file.
      fix: the fix, for messages about its contents.
      max_bytes: the largest size that is read.

    Raises:
      DataError: see `read_json`; or the file does not contain an object.
    """
    fields = read_json(path, fix, max_bytes=max_bytes)
    if not isinstance(fields, dict):
        raise DataError(f"{path}: contains a {type(fields).__name__} instead of an object. Fix: {fix}.")
    return fields


def parse_json(
    data: bytes | str, where: str | Path, fix: str = _CORRECT, convert: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """Parses JSON.

    Args:
      data: the text, or its bytes in UTF-8.
      where: the file, for messages.
      fix: the fix, for messages.
      convert: a function that replaces each object.

    Raises:
      DataError: the text is not valid JSON in UTF-8, is nested too deeply, or has an object that repeats a key.
    """

    def unique(pairs: list[tuple[str, Any]]) -> Any:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            twice = collections.Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise DataError(f"{where}: {twice!r} occurs twice in an object. Fix: give each entry a name of its own.")
        return fields if convert is None else convert(fields)

    with memory_named(where):
        text = decode_text(data, where, "JSON") if isinstance(data, bytes) else data
        try:
            value = json.loads(text, object_pairs_hook=unique)
        except DataError:
            raise
        except RecursionError as error:
            raise DataError(f"{where}: not a JSON file (it is nested too deeply). Fix: {fix}.") from error
        except ValueError as error:  # also raised for integers with thousands of digits
            raise DataError(f"{where}: not a JSON file ({error}). Fix: {fix}.") from error
        single = next(filter(None, (match[1] for match in _ESCAPE.finditer(text))), None)
    if single is not None:
        raise DataError(f"{where}: contains \\{single}, which is half a character. Fix: {fix}.")
    return value
