"""The intensity window: Hounsfield units -> network input."""

import numpy as np

from mtf_imaging.errors import DataError

Window = tuple[float, float]
DEFAULT_WINDOW: Window = (-512.0, 512.0)  # clip(HU / 1024 + 0.5, 0, 1), as in Hou et al. 2019


def check_window(window: Window) -> Window:
    """Returns `window` as two floats.

    Raises:
      DataError: it is not a lower and a higher bound.
    """
    low, high = (float(bound) for bound in window)
    if not low < high:
        raise DataError(
            f"window ({low}, {high}): its lower bound must be below its upper. Fix: for instance {DEFAULT_WINDOW}."
        )
    return low, high


def apply_window(hu: np.ndarray, window: Window = DEFAULT_WINDOW) -> np.ndarray:
    """`clip((HU - low) / (high - low), 0, 1)` as float32, in one new array.

    >>> apply_window(np.array([-1000, -512, 0, 512]))
    array([0. , 0. , 0.5, 1. ], dtype=float32)
    """
    return window_in_place(np.array(hu, np.float32), window)


def window_in_place(hu: np.ndarray, window: Window = DEFAULT_WINDOW) -> np.ndarray:
    """As `apply_window`, in the array itself, for images too large to have twice.

    Args:
      hu: float32, of any shape; overwritten.
      window: (low, high) in HU.

    Returns:
      `hu`.
    """
    low, high = check_window(window)
    hu -= np.float32(low)
    hu /= np.float32(high - low)
    return np.clip(hu, 0, 1, out=hu)
