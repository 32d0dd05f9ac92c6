"""Whether the numbers of an augmentation can be meant; errors name the parameter, its value and the fix."""

import math

from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.errors import DataError


def check_axes(name: str, axes, known: tuple[str, ...]) -> None:
    """Raises DataError where one of `axes` is none of `known`."""
    unknown = [axis for axis in axes if axis not in known]
    if unknown:
        raise DataError(f"{name} {unknown}: no axes of a volume. Fix: choose among {', '.join(known)}.")


def check_number(name: str, value, low: float = 0.0, high: float = math.inf) -> None:
    """Raises DataError where `value` is no finite number in low..high."""
    try:
        inside = math.isfinite(value) and low <= value <= high
    except TypeError:
        inside = False
    if not inside:
        bound = f"{low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise DataError(f"Augmentation.{name} {value!r}: is no number {bound}. Fix: choose one, or 0 to do without.")


def check_count(name: str, value, fewest: int = 1) -> None:
    """Raises DataError where `value` is no whole number of at least `fewest`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < fewest:
        raise DataError(f"Augmentation.{name} {value!r}: is no whole number of {fewest} or more. Fix: choose one.")


def check_counts(name: str, values) -> None:
    """Raises DataError where `values` are not whole numbers of at least 1, one or more of them."""
    known = isinstance(values, tuple | list) and len(values) > 0
    if not known or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in values):
        raise DataError(f"Augmentation.{name} {values!r}: needs whole numbers of 1 or more. Fix: for instance (1, 4).")


def check_range(name: str, bounds, low: float = 0.0, high: float = math.inf) -> None:
    """Raises DataError where `bounds` are not a lower and a higher number, in low..high."""
    try:
        first, last = bounds
        inside = low <= first <= last <= high and math.isfinite(last)
    except (TypeError, ValueError):
        inside = False
    if not inside:
        where = f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
        raise DataError(
            f"Augmentation.{name} {bounds!r}: is no range of numbers of {where}. Fix: give (lowest, highest)."
        )


def known_sizes(image) -> Grid:
    """Voxels of Tensor[x, y, z, channels] along x, y and z; DataError where its graph is built without knowing them."""
    sizes = image.shape[:3]
    if image.shape.rank != 4 or not image.shape.is_fully_defined():
        raise DataError(
            f"Augmentation of an image of shape {image.shape}: needs known sizes of x, y, z and channels. "
            f"Fix: image.set_shape([x, y, z, channels])."
        )
    return tuple(sizes)
