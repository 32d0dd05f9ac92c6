"""Suggestions for misspelled names, for error messages."""

import difflib
from collections.abc import Iterable


def closest(name: str, names: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Returns the known name that is closest to `name`, or None if no known name is similar.

    >>> closest("rosw", ["rows", "cols"])
    'rows'

    Args:
      name: the name.
      names: the known names.
      cutoff: the least similarity, from 0 to 1.
    """
    by_lower_case = {word.lower(): word for word in names}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a question such as " Did you mean 'rows'?", or "" if no known name is similar."""
    match = closest(name, names)
    return f" Did you mean '{match}'?" if match else ""
