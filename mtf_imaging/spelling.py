"""The closest known name to one that is not known: the end of most error messages about names."""

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that `name` was most likely meant to be, or None where none is close.

    >>> closest("rosw", ["rows", "cols"])
    'rows'
    """
    by_lower_case = {word.lower(): word for word in known}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.5)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'rows'?", or nothing where no known name is close."""
    match = closest(name, known)
    return f" Did you mean '{match}'?" if match else ""
