"""Suggestions for misspelled names, for error messages."""

import difflib
from collections.abc import Iterable


def closest(name: str, names: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Returns the known name that is closest to `name`, or None if no known name is similar.

    >>> closest("rosw", ["rows", "cols"]), closest("filtres", ["max_filters", "base_filters"])
    ('rows', 'base_filters')

    Args:
      name: the name.
      names: the known names.
      cutoff: the least similarity, from 0 to 1.
    """

    def likeness(known: str) -> float:
        """Returns the similarity of a whole name, or 0.9 times that of one of its words."""
        ratios = [difflib.SequenceMatcher(None, word, name.lower()).ratio() for word in known.lower().split("_")]
        return max(difflib.SequenceMatcher(None, known.lower(), name.lower()).ratio(), 0.9 * max(ratios))

    best = max(sorted(names), key=likeness, default=None)
    return best if best is not None and likeness(best) >= cutoff else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a question such as " Did you mean 'rows'?", or "" if no known name is similar."""
    match = closest(name, names)
    return f" Did you mean '{match}'?" if match else ""
