"""Checks the parameters of an augmentation, which are set once, when it is made."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.errors import DataError


def is_number(value: object, low: float = 0.0, high: float = math.inf) -> bool:
    """Returns whether a value is a finite number in low..high."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value) and low <= value <= high


def is_count(value: object, least: int = 1) -> bool:
    """Returns whether a value is an integer of at least `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def is_range(value: object, low: float, high: float) -> bool:
    """Returns whether a value is a pair of ascending numbers in low..high."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    return is_pair and all(is_number(bound, low, high) for bound in value) and value[0] <= value[1]


def check_fields(augmentation: object, rules: dict[str, tuple[Callable[[Any], bool], str]]) -> None:
    """Checks the fields of an augmentation.

    Args:
      augmentation: the augmentation.
      rules: {field: (whether a value is valid, its form in words)}.

    Raises:
      DataError: a value is not valid; the message names the field, the value and its form.
    """
    for name, (is_valid, form) in rules.items():
        value = getattr(augmentation, name)
        if not is_valid(value):
            raise DataError(f"{type(augmentation).__name__}.{name} {value!r}: must be {form}. Fix: choose one.")


def known_sizes(image: object) -> Grid:
    """Returns the sizes x, y, z of Tensor[x, y, z, channels]; raises DataError if its shape is not static."""
    if image.shape.rank != 4 or not image.shape.is_fully_defined():
        raise DataError(
            f"Augmentation: an image of shape {image.shape} does not have static sizes of x, y, z and channels. "
            "Fix: call image.set_shape([x, y, z, channels])."
        )
    x, y, z, _ = image.shape
    return x, y, z
