"""The intensity window in Hounsfield units. Does not import NumPy, because a setting uses it as its default."""

from mtf_imaging.errors import DataError

Window = tuple[float, float]
DEFAULT_WINDOW: Window = (-512.0, 512.0)  # clip(HU / 1024 + 0.5, 0, 1), as in Hou et al. 2019


def check_window(window: Window) -> Window:
    """Returns `window` as two floats.

    Raises:
      DataError: the lower bound is not below the upper bound.
    """
    low, high = (float(bound) for bound in window)
    if not low < high:
        raise DataError(
            f"window ({low}, {high}): the lower bound must be below the upper bound. "
            f"Fix: use, for example, {DEFAULT_WINDOW}."
        )
    return low, high
