"""Checks of the inputs of operations."""

from typing import Any

import numpy as np

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ConfigError, ShapeError


def check_tensor(title: str, x: object) -> None:
    """Checks that an input is a tensor with named dimensions.

    Args:
      title: kind and name of the operation, for error messages.
      x: the input.

    Raises:
      ConfigError: it is something else.
    """
    if not isinstance(x, mtf.Tensor):
        raise ConfigError(
            f"{title}: the input must be a tensor of a program, not {type(x).__name__}. Fix: call the operation in the "
            "function of an mi.Program or in a method of a task."
        )


def check_floating(title: str, x: Any) -> None:
    """Checks that an input is a tensor of floating-point numbers.

    Args:
      title: kind and name of the operation, for error messages.
      x: the input.

    Raises:
      ConfigError: it is not a tensor.
      ShapeError: it has integers or truth values.
    """
    check_tensor(title, x)
    if not x.dtype.is_floating:
        raise ShapeError(
            f"{title}: the input is {x.dtype.name}, but it must have floating-point numbers. Fix: convert it with "
            "mtf.cast."
        )


def is_number(value: object) -> bool:
    """Returns whether a value is an int or a float, also one of NumPy, but not a bool."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
