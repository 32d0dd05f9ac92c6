"""Checks of network settings. Messages start with the class and the name of a setting."""

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


def check_norm(network):
    """Checks the settings `norm_momentum` and `norm_epsilon` of a network.

    Raises:
      ConfigError: the momentum is not a number of at least 0 and below 1, or the epsilon is not a number above 0.
    """
    name, momentum, epsilon = type(network).__name__, network.norm_momentum, network.norm_epsilon
    if not (_is_number(momentum) and 0 <= momentum < 1):
        raise mi.ConfigError(f"{name}.norm_momentum = {momentum!r}: it must be at least 0 and below 1.")
    if not (_is_number(epsilon) and epsilon > 0):
        raise mi.ConfigError(f"{name}.norm_epsilon = {epsilon!r}: it must be above 0.")


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


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)
