"""Positions and weights of the windows that slide over an image. Pure NumPy."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mtf_imaging.engine.layout.regions import Region
from mtf_imaging.errors import ConfigError

STEP = 0.5  # the distance between neighboring windows, as a fraction of their size
_SIGMA = 1 / 8  # of the Gaussian, as a fraction of the window size, as in nnU-Net (Isensee et al. 2021)


@dataclasses.dataclass(frozen=True)
class SlidingWindow:
    """The size of the windows and the distance between them.

    Attributes:
      size: voxels along each spatial dimension.
      step: the largest distance between neighboring windows, as a fraction of their size.
    """

    size: tuple[int, ...]
    step: float = STEP

    def check(self, sizes: Sequence[int]) -> None:
        """Checks that an image is at least as large as a window.

        Args:
          sizes: voxels of the image along each spatial dimension.

        Raises:
          ConfigError: it is not.
        """
        if len(sizes) != len(self.size) or any(n < own for n, own in zip(sizes, self.size, strict=True)):
            shown, own = " x ".join(map(str, sizes)), " x ".join(map(str, self.size))
            raise ConfigError(
                f"the sliding window of {own} voxels does not fit into the grid of {shown} voxels. Fix: give a smaller "
                "sliding_window, or none to compute the whole grid at once.",
                ["sliding_window"],
            )


class AxisWindows(NamedTuple):
    """The windows along one axis.

    Attributes:
      starts: the first voxel of each window.
      weights: the weight of each voxel of each window, float64 `[windows, voxels]`. The weights of all windows at a
        voxel of the image sum to 1.
    """

    starts: tuple[int, ...]
    weights: np.ndarray


@functools.cache
def axis_windows(size: int, window: int, step: float = STEP) -> AxisWindows:
    """Returns the windows along one axis, the first at the start of the image and the last at its end.

    >>> axis_windows(12, 8).starts
    (0, 4)

    Args:
      size: voxels of the image, at least `window`.
      window: voxels of the window.
      step: the largest distance between neighboring windows, as a fraction of `window`; at least one voxel.
    """
    span = size - window
    # Without rounding, 0.29 * 100 would be less than 29.
    intervals = math.ceil(span / max(1, math.floor(round(step * window, 6))))
    starts = tuple(_rounded(number, span, intervals) for number in range(intervals + 1))
    offsets = np.arange(window) - (window - 1) / 2
    gaussian = np.exp(-0.5 * (offsets / (_SIGMA * window)) ** 2)
    total = np.zeros(size)
    for start in starts:
        total[start : start + window] += gaussian
    weights = np.stack([gaussian / total[start : start + window] for start in starts])
    weights.flags.writeable = False  # all callers share it
    return AxisWindows(starts, weights)


def _rounded(number: int, span: int, intervals: int) -> int:
    """Returns `number * span / intervals`, rounded; halves are rounded so that starts are mirror images."""
    if not intervals:
        return 0
    whole, rest = divmod(2 * number * span + intervals, 2 * intervals)
    return whole - (rest == 0 and 2 * number <= intervals)


class Windows:
    """The windows of an image, in the order of their starts; the last axis varies fastest.

    The weight of a voxel in a window is the product of its weights along the axes. Since the weights sum to 1 along
    each axis, they also sum to 1 in the image, and a weighted sum needs no division at the end.

    Args:
      sizes: voxels of the image along each spatial dimension.
      window: the window.

    Attributes:
      axes: the windows along each axis.
      size: voxels of a window along each axis.

    Raises:
      ConfigError: the window is larger than the image.
    """

    def __init__(self, sizes: Sequence[int], window: SlidingWindow) -> None:
        window.check(sizes)
        pairs = zip(sizes, window.size, strict=True)
        self.axes = [axis_windows(size, own, window.step) for size, own in pairs]
        self.size = window.size
        self._numbers = [*itertools.product(*(range(len(axis.starts)) for axis in self.axes))]

    def __len__(self) -> int:
        return len(self._numbers)

    def region(self, number: int) -> Region:
        """Returns the region of the image that a window covers."""
        starts = (axis.starts[at] for axis, at in zip(self.axes, self._numbers[number], strict=True))
        return tuple(slice(start, start + size) for start, size in zip(starts, self.size, strict=True))

    def weights(self, number: int) -> list[np.ndarray]:
        """Returns the weights of a window along each axis. The weight of a voxel is their product."""
        return [axis.weights[at] for axis, at in zip(self.axes, self._numbers[number], strict=True)]
