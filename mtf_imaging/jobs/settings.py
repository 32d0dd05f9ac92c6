"""Settings that several jobs share, and their checks.

This module does not import TensorFlow, so that a mistake is reported without delay.
"""

import math

from mtf_imaging.errors import ConfigError


def check_count(name: str, value: object) -> None:
    """Raises ConfigError unless a setting is a positive integer; bools do not count as integers."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a positive integer, not {value!r}.", [name])


def check_price(price_per_hour: float | None) -> None:
    """Raises ConfigError unless the price of a device is a positive, finite number, or None for no price."""
    if price_per_hour is None:
        return
    number = isinstance(price_per_hour, int | float) and not isinstance(price_per_hour, bool)
    if not (number and math.isfinite(price_per_hour) and price_per_hour > 0):
        raise ConfigError(
            f"price_per_hour must be a positive number, not {price_per_hour!r}. Fix: give the price of one device for "
            "one hour, for instance 2.5, or leave it out to print no cost.",
            ["price_per_hour"],
        )
