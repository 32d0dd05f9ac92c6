"""Checks of layer arguments."""

from collections.abc import Iterable, Sequence
from typing import Any

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean


def check_count(title: str, name: str, value: Any) -> None:
    """Checks that an argument is an int of at least 1.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.

    Raises:
      ConfigError: it is something else.
    """
    if not _is_count(value):
        raise ConfigError(f"{title}: {name} = {value!r}: it must be an int of at least 1.")


def check_sizes(title: str, name: str, value: Any) -> None:
    """Checks that an argument is an int of at least 1, or one for each of 1 to 3 spatial dimensions.

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
            f"{title}: {name} = {value!r}: it must be an int of at least 1, or one for each of 1 to 3 spatial "
            "dimensions."
        )


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


def check_function(title: str, name: str, value: Any, choices: Sequence[str]) -> None:
    """Checks that an argument is one of several names, a function, or None.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.
      choices: the names.

    Raises:
      ConfigError: it is something else.
    """
    if isinstance(value, str):
        check_choice(title, name, value, choices)
    elif not (value is None or callable(value)):
        raise ConfigError(
            f"{title}: {name} = {value!r} is not a function. Fix: use a function, None, or one of "
            f"{', '.join(map(repr, choices))}."
        )


def check_initializer(title: str, name: str, value: Any, choices: Sequence[str]) -> None:
    """Checks that an argument is one of several names or a function.

    Args:
      title: the layer, for error messages.
      name: name of the argument.
      value: the argument.
      choices: the names.

    Raises:
      ConfigError: it is something else.
    """
    if isinstance(value, str):
        check_choice(title, name, value, choices)
    elif not callable(value):
        raise ConfigError(
            f"{title}: {name} = {value!r} is not an initializer. Fix: use an initializer of TensorFlow, or one of "
            f"{', '.join(map(repr, choices))}."
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
