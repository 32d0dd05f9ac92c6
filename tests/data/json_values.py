"""JSON with a value of another type at any one place, as in damaged or hostile files."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

# A huge integer does not fit any type of NumPy.
VALUES = [None, True, -1, 0, 2.5, 10**400, float("nan"), "", "text", "../x", [], [[]], [0, 0, 0], {}, {"name": "x"}]


def replacements(value: Any) -> Iterator[tuple[Any, str]]:
    """Yields copies of JSON with another value at one place, and what was replaced."""
    for at, other in itertools.product([*places(value)], VALUES):
        changed = copy.deepcopy(value)
        holder = changed
        for key in at[:-1]:
            holder = holder[key]
        holder[at[-1]] = copy.deepcopy(other)
        yield changed, f"{at} = {other!r}"


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """Yields the path to every value in JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*at, key)
        yield from places(part, (*at, key))
