"""Reads parameter descriptions from Google-style docstrings."""

import inspect
import re

_SECTION = re.compile(r"(Args|Attributes):$")
_ENTRY = re.compile(r"  (?P<names>\*{0,2}\w+(?:, \w+)*)(?: \([^)]*\))?: +(?P<text>\S.*)$")


def parameter_meanings(thing: type | object) -> dict[str, str]:
    """Returns the parameter descriptions of a function or class, as {name: text on one line}.

    Args:
      thing: a function or a class. For a class, the docstrings of the class, of its `__init__` and of its base classes
        are read; the most derived class takes precedence.

    >>> def f(size):
    ...     '''Draws.
    ...
    ...     Args:
    ...       size: pixels, along
    ...         each axis.
    ...     '''
    >>> parameter_meanings(f)
    {'size': 'pixels, along each axis.'}
    """
    docs = [thing]
    if inspect.isclass(thing):
        docs = [doc for base in thing.__mro__ if base is not object for doc in (base, vars(base).get("__init__"))]
    meanings: dict[str, str] = {}
    for doc in docs:
        own = vars(doc).get("__doc__") if inspect.isclass(doc) else getattr(doc, "__doc__", None)
        for name, text in _parse(own or "").items():
            meanings.setdefault(name, text)
    return meanings


def _parse(doc: str) -> dict[str, str]:
    meanings: dict[str, str] = {}
    names: list[str] = []
    is_section = False
    for line in inspect.cleandoc(doc).splitlines():
        if line and not line.startswith(" "):
            is_section, names = _SECTION.match(line) is not None, []
        elif is_section and (match := _ENTRY.match(line)):
            names = match["names"].replace("*", "").split(", ")
            meanings |= dict.fromkeys(names, match["text"].strip())
        elif is_section and line.startswith("    "):
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
    return meanings
