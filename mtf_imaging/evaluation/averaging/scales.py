"""Test-time augmentation with scales: checks the factors by which an image is scaled."""

from collections.abc import Sequence

from mtf_imaging.errors import ConfigError


def check_scales(scales: Sequence[float]) -> tuple[float, ...]:
    """Checks scale factors and returns them as a tuple.

    Raises:
      ConfigError: there are no factors, or a factor is not a positive number.
    """
    factors = tuple(scales) if isinstance(scales, tuple | list) else (scales,)
    are_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < 100 for one in factors)
    if not factors or not are_numbers:
        raise ConfigError(
            f"scales = {scales!r} must be one or more numbers above 0 and below 100. "
            "Fix: use (1.0,) for an image's own size, or several scales such as (0.75, 1.0, 1.25).",
            settings=["scales"],
        )
    return tuple(float(one) for one in factors)
