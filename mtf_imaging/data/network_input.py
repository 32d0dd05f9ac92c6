"""Converts an image to network input by applying the intensity scheme of each channel."""

from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.intensities import ChannelStatistics, Intensity, Scaling
from mtf_imaging.errors import DataError


def apply_intensities(
    values: np.ndarray, intensities: Sequence[Intensity], statistics: Sequence[ChannelStatistics] = ()
) -> np.ndarray:
    """Returns the network input.

    Args:
      values: `[x, y, z, channels]`, resampled values.
      intensities: the intensity scheme of each channel.
      statistics: the distribution of each channel in the whole case; may be empty if no scheme needs it.

    Returns:
      A new float32 array `[x, y, z, channels]`.

    Raises:
      DataError: a scheme needs statistics, but there are none; or the numbers of schemes and channels differ.
    """
    scalings = channel_scalings(intensities, statistics)
    if len(scalings) != values.shape[-1]:
        raise DataError(
            f"the image has {values.shape[-1]} channel(s), but there are {len(scalings)} intensities. "
            "Fix: give one intensity per channel."
        )
    if len(scalings) == 1:
        return scalings[0].apply(values)
    result = np.empty(values.shape, np.float32)
    for number, scaling in enumerate(scalings):
        result[..., number] = scaling.apply(values[..., number])
    return result


def channel_scalings(intensities: Sequence[Intensity], statistics: Sequence[ChannelStatistics]) -> list[Scaling]:
    """Returns each channel's map from values to network input; see `apply_intensities`."""
    if not statistics:
        return [intensity.scaling() for intensity in intensities]
    return [intensity.scaling(channel) for intensity, channel in zip(intensities, statistics, strict=True)]
