"""Checks of layer arguments."""

from collections.abc import Collection, Iterable
from typing import Any

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean


def check_count(title: str, name: str, value: Any, per_dimension: bool = False) -> None:
    """Checks that an argument is an int of at least 1.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.
      per_dimension: whether it may also be one int for each of 1 to 3 spatial dimensions.

    Raises:
      ConfigError: it is something else.
    """
    values = value if per_dimension and isinstance(value, tuple | list) else [value]
    if not (1 <= len(values) <= 3 and all(map(_is_count, values))):
        more = ", or one for each of 1 to 3 spatial dimensions" if per_dimension else ""
        raise ConfigError(f"{title}: {name} = {value!r}: it must be an int of at least 1{more}.")


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
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
