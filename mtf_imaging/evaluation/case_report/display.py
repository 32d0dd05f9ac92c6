"""The gray values of images in pictures."""

import math

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.modality import is_ct

DISPLAY_HU = (-160, 240)  # the abdominal window in radiology
_PERCENTILES = (0.5, 99.5)  # for other images; excludes the few brightest voxels of vessels and artifacts
_SAMPLE = 1 << 20  # approximate number of voxels that determine the percentiles


def shown_channel(image: np.ndarray) -> np.ndarray:
    """Returns the channel to show of an image `[x, y, z]` or `[x, y, z, channels]`: the first one."""
    return image[..., 0] if image.ndim == 4 else image


def sample_step(shape: tuple[int, ...]) -> int:
    """Returns the distance, in voxels along each axis, between the voxels that determine the range of an image."""
    return max(1, round((math.prod(shape) / _SAMPLE) ** (1 / len(shape))))


def display_range(image: np.ndarray, description: Description, step: int | None = None) -> tuple[float, float]:
    """Returns the values that pictures show as black and white.

    Args:
      image: `[x, y, z]`, the first channel of an image, or any array of its values.
      description: the description of the channels.
      step: the distance between the sampled voxels along each axis; None for `sample_step`.

    Returns:
      The abdominal window in HU for a CT, and percentiles of the values for any other image.
    """
    if shows_ct(description):
        return DISPLAY_HU
    step = step or sample_step(image.shape)
    sample = image[(slice(None, None, step),) * image.ndim]
    low, high = (float(value) for value in np.percentile(sample, _PERCENTILES))
    return low, high if high > low else low + 1.0


def shows_ct(description: Description) -> bool:
    """Returns whether pictures show a CT."""
    return is_ct(description.channels[0])


def to_gray(image: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Converts an image to gray values, uint8; `bounds` are black and white."""
    low, high = bounds
    return np.rint((np.clip(image, low, high).astype(np.float32) - low) * (255 / (high - low))).astype(np.uint8)
