"""Checks the parameters of an augmentation; each error names the parameter, its value and the fix."""

import math

from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.errors import DataError


def check_axes(name: str, axes, known: tuple[str, ...]) -> None:
    """Raises DataError if any of `axes` is not in `known`."""
    unknown = [axis for axis in axes if axis not in known]
    if unknown:
        raise DataError(
            f"Augmentation.{name} {unknown}: these are not axes of a volume. Fix: choose from {', '.join(known)}."
        )


def check_number(name: str, value, low: float = 0.0, high: float = math.inf) -> None:
    """Raises DataError if `value` is not a finite number in low..high."""
    try:
        inside = math.isfinite(value) and low <= value <= high
    except TypeError:
        inside = False
    if not inside:
        bound = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise DataError(
            f"Augmentation.{name} {value!r}: must be a number {bound}. Fix: choose one, or 0 to disable the option."
        )


def check_count(name: str, value, fewest: int = 1) -> None:
    """Raises DataError if `value` is not an integer of at least `fewest`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < fewest:
        raise DataError(f"Augmentation.{name} {value!r}: must be an integer of at least {fewest}. Fix: choose one.")


def check_counts(name: str, values) -> None:
    """Raises DataError if `values` is not a nonempty sequence of positive integers."""
    is_sequence = isinstance(values, tuple | list) and len(values) > 0
    if not is_sequence or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in values):
        raise DataError(f"Augmentation.{name} {values!r}: must be positive integers. Fix: use, for example, (1, 4).")


def check_range(name: str, bounds, low: float = 0.0, high: float = math.inf) -> None:
    """Raises DataError if `bounds` is not a pair of ascending numbers in low..high."""
    try:
        first, last = bounds
        inside = low <= first <= last <= high and math.isfinite(last)
    except (TypeError, ValueError):
        inside = False
    if not inside:
        where = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise DataError(
            f"Augmentation.{name} {bounds!r}: must be a range of numbers {where}. Fix: give (lowest, highest)."
        )


def known_sizes(image) -> Grid:
    """Returns the sizes x, y, z of Tensor[x, y, z, channels]; raises DataError if its shape is not static."""
    sizes = image.shape[:3]
    if image.shape.rank != 4 or not image.shape.is_fully_defined():
        raise DataError(
            f"Augmentation: an image of shape {image.shape} does not have static sizes of x, y, z and channels. "
            "Fix: call image.set_shape([x, y, z, channels])."
        )
    return tuple(sizes)


def known_channels(image) -> int:
    """Returns the number of channels of Tensor[x, y, z, channels]; raises DataError if it is not static."""
    if image.shape.rank != 4 or image.shape[3] is None:
        raise DataError(
            f"Augmentation: an image of shape {image.shape} does not have a static number of channels. "
            "Fix: call image.set_shape([None, None, None, channels])."
        )
    return image.shape[3]
