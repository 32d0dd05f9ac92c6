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
      step: the largest mean distance between neighboring windows, as a fraction of their size.
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

    Their places and weights are those of nnU-Net, whose Gaussian is 1 at the voxel `window // 2`.

    >>> axis_windows(12, 8).starts
    (0, 4)

    Args:
      size: voxels of the image, at least `window`.
      window: voxels of the window.
      step: the largest mean distance between neighboring windows, as a fraction of `window`.
    """
    span = size - window
    # With steps below one voxel, windows would be equal. Without rounding, 58 / (0.29 * 100) would be more than 2.
    intervals = min(span, math.ceil(round(span / (step * window), 6)))
    starts = tuple(round(number * (span / max(1, intervals))) for number in range(intervals + 1))  # halves to even
    offsets = np.arange(window) - window // 2
    gaussian = np.exp(-0.5 * (offsets / (_SIGMA * window)) ** 2)
    total = np.zeros(size)
    for start in starts:
        total[start : start + window] += gaussian
    weights = np.stack([gaussian / total[start : start + window] for start in starts])
    weights.flags.writeable = False  # all callers share it
    return AxisWindows(starts, weights)


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
