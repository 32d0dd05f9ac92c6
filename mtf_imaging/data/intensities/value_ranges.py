"""The value range of each channel, to which intensity augmentations adapt."""

import math
from typing import Any, NamedTuple

import numpy as np

from mtf_imaging.data.intensities.scaling import Scaling
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.modality import value_beyond

_SMALLEST_UNIT = 1e-8


class ValueRanges(NamedTuple):
    """The value ranges of a sample's channels: one number for all channels, or Tensor[channels] float32.

    Attributes:
      low, high: the bounds of the values; infinite if the values are not clipped.
      center: the value that contrast augmentation does not change.
      unit: the unit of brightness and noise: the width of a window, or the standard deviation in the case.
      beyond: the value of voxels that a warp moves in from beyond the image.
      keep_zero: True if voxels of 0 are masked out and stay 0.
      lowest, highest: the finite bounds that gamma keeps: `low` and `high`, or the extreme values in the whole case if
        the values are not clipped.
    """

    low: Any
    high: Any
    center: Any
    unit: Any
    beyond: Any
    keep_zero: Any
    lowest: Any
    highest: Any


WINDOWED = ValueRanges(0.0, 1.0, 0.5, 1.0, 0.0, False, 0.0, 1.0)  # for a window, which is mapped to 0..1


def value_ranges(channel: str, scaling: Scaling, statistics: ChannelStatistics | None) -> ValueRanges:
    """Returns the value range of one channel of one case.

    Args:
      channel: the name of the channel.
      scaling: the map of the channel.
      statistics: the distribution of the channel; None if it is not known, as for a window in LiTS.
    """
    low, high = scaling.low, scaling.high
    beyond = float(scaling.apply(np.array([value_beyond(channel)]))[0])
    if statistics is None or math.isfinite(high - low):
        center, unit, lowest, highest = (low + high) / 2, high - low, low, high
    else:
        mean, sd = statistics.mean, statistics.sd
        if scaling.keep_zero:
            mean, sd = statistics.nonzero_mean, statistics.nonzero_sd
        extremes = [(value - scaling.offset) / scaling.scale for value in (statistics.minimum, statistics.maximum)]
        center, unit = (mean - scaling.offset) / scaling.scale, sd / scaling.scale
        lowest, highest = min(beyond, *extremes), max(beyond, *extremes)
    unit = unit if unit > _SMALLEST_UNIT else 1.0
    return ValueRanges(low, high, center, unit, beyond, scaling.keep_zero, lowest, highest)
