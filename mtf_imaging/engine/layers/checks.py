"""Checks of layer arguments."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean


def as_count(title: str, name: str, value: Any) -> int:
    """Returns a positive integer, which may be one of NumPy, as an int.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.

    Raises:
      ConfigError: it is something else.
    """
    if not _is_count(value):
        raise ConfigError(f"{title}: {name} = {value!r} is not a positive integer. Fix: use an integer of at least 1.")
    return int(value)


def as_counts(title: str, name: str, value: Any) -> int | tuple[int, ...]:
    """Returns a positive integer for all spatial dimensions, or one for each of 1 to 3, as ints.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.

    Raises:
      ConfigError: it is something else.
    """
    values = value if isinstance(value, tuple | list) else [value]
    if not (1 <= len(values) <= 3 and all(map(_is_count, values))):
        raise ConfigError(
            f"{title}: {name} = {value!r} is not a positive integer. Fix: use an integer of at least 1, or one "
            "for each of 1 to 3 spatial dimensions."
        )
    return tuple(map(int, values)) if isinstance(value, tuple | list) else int(value)


def check_choice(title: str, name: str, value: Any, choices: Iterable[str]) -> None:
    """Checks that an argument is one of several names.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.
      choices: the names.

    Raises:
      ConfigError: it is something else.
    """
    choices = list(choices)
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ConfigError(
            f"{title}: {name} = {value!r} is not known.{hint} Fix: choose one of {', '.join(map(repr, choices))}."
        )


def check_function(
    title: str, name: str, value: Any, choices: Collection[str] = (), needed: str = "a function"
) -> None:
    """Checks that an argument is a function or one of several names.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.
      choices: the names.
      needed: the function that the argument should be, for error messages.

    Raises:
      ConfigError: it is something else.
    """
    if isinstance(value, str) and choices:
        check_choice(title, name, value, choices)
    elif not callable(value):
        names = f", or one of {', '.join(map(repr, choices))}" if choices else ""
        raise ConfigError(f"{title}: {name} = {value!r} is not {needed}. Fix: use {needed}{names}.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1
