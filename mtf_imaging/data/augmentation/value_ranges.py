"""The value range of each channel, to which intensity augmentations adapt."""

from typing import Any, NamedTuple


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
