"""Converts job settings to text: for people with `as_text`, and for comparisons with `identity`."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from mtf_imaging.files.provenance.content import content_digest
from mtf_imaging.files.provenance.digests import SHOWN

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the default `repr` of an object
_DEPTH = 8


def as_text(value: object, depth: int = 0) -> str:
    """Returns a value as text for people, which may leave out parts of it.

    An object without its own `repr` is described by its class and attributes.

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
        shown = [field for field in dataclasses.fields(value) if field.repr]
        return _called(value, ((field.name, getattr(value, field.name)) for field in shown), depth)
    if not any("__repr__" in vars(kind) for kind in type(value).__mro__[:-1]):
        return _called(value, vars(value).items(), depth)
    return _ADDRESS.sub("", repr(value))


def identity(value: object, name: str) -> str:
    """Returns a text that is the same for equal values only: numbers, text and sequences of them as they are.

    For anything else, the first digits of the digest of its content follow its text.

    >>> identity(("x", 1, None), "flips")
    "('x', 1, None)"
    >>> identity({1}, "labels").partition(", content ")[:2]
    ('(1)', ', content ')

    Args:
      value: the value.
      name: its name in messages.

    Raises:
      ConfigError: the same as in `content_digest`.
    """
    text = as_text(value)
    return text if _is_plain(value) else f"{text}, content {content_digest(value, name)[:SHOWN]}"


def as_plain(value: object, name: str) -> object:
    """Returns a value as a JSON value: text, numbers and sequences of them unchanged, anything else as its `identity`.

    >>> as_plain(("x", 1, None), "flips")
    ['x', 1, None]
    """
    if isinstance(value, list | tuple):
        return [as_plain(one, name) for one in value]
    return value if _is_plain(value) else identity(value, name)


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _called(value: object, attributes: Iterable[tuple[str, Any]], depth: int) -> str:
    parts = (f"{name.lstrip('_')}={as_text(one, depth + 1)}" for name, one in attributes)
    return f"{type(value).__name__}({', '.join(parts)})"
