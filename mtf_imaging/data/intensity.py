"""The intensity window, which maps Hounsfield units to network input."""

import numpy as np

from mtf_imaging.data.window import DEFAULT_WINDOW, Window, check_window


def apply_window(hu: np.ndarray, window: Window = DEFAULT_WINDOW) -> np.ndarray:
    """Returns `clip((HU - low) / (high - low), 0, 1)` as a new float32 array.

    >>> apply_window(np.array([-1000, -512, 0, 512]))
    array([0. , 0. , 0.5, 1. ], dtype=float32)
    """
    return window_in_place(np.array(hu, np.float32), window)


def window_in_place(hu: np.ndarray, window: Window = DEFAULT_WINDOW) -> np.ndarray:
    """Applies a window in place, for images too large to copy.

    Args:
      hu: float32 array of any shape; overwritten.
      window: (low, high) in HU.

    Returns:
      `hu` itself, with values `clip((HU - low) / (high - low), 0, 1)`.
    """
    low, high = check_window(window)
    hu -= np.float32(low)
    hu /= np.float32(high - low)
    return np.clip(hu, 0, 1, out=hu)
