"""Converts job settings to text that is the same in every process, for comparisons and provenance."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the default `repr` of an object
_DEPTH = 8


def as_text(value: Any, depth: int = 0) -> str:
    """Returns a value as text; an object without its own `repr` is described by its class and attributes.

    >>> class Task:
    ...     def __init__(self, network, rate):
    ...         self.network, self._rate = network, rate
    >>> as_text(Task(Task(None, 1), 0.5)), as_text({"b": (1,), "a": "x"})
    ('Task(network=Task(network=None, rate=1), rate=0.5)', "{'a': 'x', 'b': (1)}")

    Args:
      value: the value.
      depth: the number of objects that contain it; a value that is too deep, as in a cycle, becomes "...".
    """
    if depth > _DEPTH:
        return "..."
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{key!r}: {as_text(one, depth + 1)}' for key, one in value.items()))}}}"
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return f"({', '.join(as_text(one, depth + 1) for one in value)})"
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return _ADDRESS.sub("", repr(value))
    if dataclasses.is_dataclass(value):
        shown = [field for field in dataclasses.fields(value) if field.repr and not _is_added(field, value)]
        return _called(value, ((field.name, getattr(value, field.name)) for field in shown), depth)
    if not any("__repr__" in vars(kind) for kind in type(value).__mro__[:-1]):
        return _called(value, vars(value).items(), depth)
    return _ADDRESS.sub("", repr(value))


def as_plain(value: Any) -> Any:
    """Returns a value as a JSON value: text, numbers and sequences of them unchanged, anything else as its text.

    >>> as_plain(("x", 1, None)), as_plain({"b": (1,)})
    (['x', 1, None], "{'b': (1)}")
    """
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float) else as_text(value)


def _is_added(field: dataclasses.Field, value: object) -> bool:
    """Returns whether a field has its default, and earlier releases did not have the field."""
    is_added = field.metadata.get("added", False) or field.metadata.get("setting", {}).get("added", False)
    return is_added and getattr(value, field.name) == field.default


def _called(value: object, attributes: Iterable[tuple[str, Any]], depth: int) -> str:
    parts = (f"{name.lstrip('_')}={as_text(one, depth + 1)}" for name, one in attributes)
    return f"{type(value).__name__}({', '.join(parts)})"
