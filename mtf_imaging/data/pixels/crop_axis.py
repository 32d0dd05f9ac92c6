"""The size of crops, and the position of a crop along one axis of a scaled photo; see `crops`."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mtf_imaging.errors import ConfigError


class CropAxis(NamedTuple):
    """One axis of a crop.

    Attributes:
      region: the pixels of the photo that the crop needs.
      centers: float32 `[pixels of the crop]`, the centers of the crop's pixels, in pixels of the photo from the start
        of the region. The first pixel of the region spans 0..1.
      first: the first pixel of the crop in the scaled photo.
      factor: pixels of the scaled photo per pixel of the photo. Position x in the photo is at `x * factor - first`
        in the crop.
    """

    region: slice
    centers: np.ndarray
    first: int
    factor: float


def scaled_length(length: int, scale: float) -> int:
    """Returns the number of pixels in a scaled axis, at least 1."""
    return max(1, round(length * scale))


def crop_axis(length: int, scale: float, size: int, place: float) -> CropAxis:
    """Places a crop along one axis of a scaled photo.

    Args:
      length: pixels of the photo.
      scale: the factor that multiplies `length`.
      size: pixels of the crop. If the scaled photo has fewer, the crop contains all of them.
      place: a number in 0..1 that selects the position, 0 for the first one and 1 for the last one.
    """
    scaled = scaled_length(length, scale)
    count = min(scaled, size)
    first = min(int(place * (scaled - count + 1)), scaled - count)
    # In float32 and in this order, as in tf.image.resize, so that the nearest pixels are the same.
    ratio = np.float32(length) / np.float32(scaled)
    centers = (np.arange(first, first + count, dtype=np.float32) + np.float32(0.5)) * ratio
    start = max(0, math.floor(centers[0] - 0.5))
    stop = min(length, math.floor(centers[-1] - 0.5) + 2)
    return CropAxis(slice(start, stop), centers - np.float32(start), first, scaled / length)


def check_size(name: str, size: object) -> tuple[int, int]:
    """Returns a height and a width as integers.

    Args:
      name: the setting name, for the message.
      size: the height and the width.

    Raises:
      ConfigError: `size` is not two positive integers.
    """
    is_pair = isinstance(size, Sequence) and not isinstance(size, str) and len(size) == 2
    if not is_pair or any(not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1 for n in size):
        raise ConfigError(f"{name} {size!r}: must be two positive integers. Fix: use, for example, (513, 513).")
    return int(size[0]), int(size[1])
