"""Checks of the settings of networks. Messages start with the class and the name of a setting."""

import mtf_imaging as mi


def is_count(value):
    """Returns whether a value is a positive int."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_count(network, name):
    """Checks that the setting `name` of a network is a positive int.

    Raises:
      ConfigError: it is not.
    """
    value = getattr(network, name)
    if not is_count(value):
        raise mi.ConfigError(f"{type(network).__name__}.{name} = {value!r}: it must be an int of at least 1.")


def check_choice(network, name, choices):
    """Checks that the setting `name` of a network is one of several values.

    Raises:
      ConfigError: it is not.
    """
    value = getattr(network, name)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise mi.ConfigError(
            f"{type(network).__name__}.{name} = {value!r} is not known. Fix: choose one of "
            f"{', '.join(map(repr, choices))}."
        )
