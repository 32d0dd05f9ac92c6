"""The intensity schemes of records as tables with one row per case, for use in a TensorFlow graph."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.value_ranges import ValueRanges
from mtf_imaging.data.intensities import (
    NONE,
    WINDOW,
    ChannelStatistics,
    Intensity,
    Scaling,
    parse_intensity,
)
from mtf_imaging.data.modality import is_ct, value_beyond
from mtf_imaging.data.network_input import channel_scalings
from mtf_imaging.data.records.manifest import Manifest, is_plain_lits
from mtf_imaging.data.window import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.spelling import did_you_mean

_SMALLEST_UNIT = 1e-8


class ChannelMaps(NamedTuple):
    """The maps from stored values to network input, Tensor or array [cases, channels] or, for one case, [channels].

    Attributes:
      offset, scale, low, high, keep_zero: the attributes of `Scaling`.
      center, unit, beyond, lowest, highest: the attributes of `ValueRanges`.
    """

    offset: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    high: np.ndarray
    keep_zero: np.ndarray
    center: np.ndarray
    unit: np.ndarray
    beyond: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    def row(self, at) -> "ChannelMaps":
        """Returns the maps of the case with index `at`, Tensor[] int64."""
        return ChannelMaps(*(tf.gather(tf.constant(column), at) for column in self))

    def apply(self, values):
        """Returns the network input of one case, Tensor[x, y, z, channels] float32; see `Scaling.apply`."""
        scaled = (values - self.offset) / self.scale
        scaled = tf.clip_by_value(scaled, self.low, self.high)
        return tf.where((values == 0) & self.keep_zero, 0.0, scaled)

    @property
    def ranges(self) -> ValueRanges:
        """The values of the network input, for augmentation."""
        return ValueRanges(
            *(self.low, self.high, self.center, self.unit, self.beyond, self.keep_zero, self.lowest, self.highest)
        )


def channel_maps(manifest: Manifest, intensities: Sequence[Intensity]) -> ChannelMaps:
    """Returns the maps of all cases.

    Args:
      manifest: the manifest, with each case's channel statistics.
      intensities: the intensity scheme of each channel; see `resolve_intensities`.
    """
    names = manifest.description.channels
    rows = []
    for source in manifest.sources.values():
        statistics = source.statistics
        scalings = channel_scalings(intensities, statistics)
        rows.append(
            [
                _columns(name, scaling, statistics[number] if statistics else None)
                for number, (name, scaling) in enumerate(zip(names, scalings, strict=True))
            ]
        )
    table = np.array(rows, np.float64)  # [cases, channels, columns]
    columns = [column.astype(np.float32) for column in np.moveaxis(table, 2, 0)]
    columns[4] = columns[4].astype(bool)
    return ChannelMaps(*columns)


def resolve_intensities(
    manifest: Manifest, window: Window = DEFAULT_WINDOW, overrides: Mapping[str, str] | None = None
) -> tuple[Intensity, ...]:
    """Returns the intensity scheme of each channel in a records folder.

    Args:
      manifest: the manifest, with the schemes that the records name.
      window: (low, high) in HU for CT channels that have a window. A window in the description of the records takes
        precedence over the default.
      overrides: {channel: scheme} of channels with a different scheme, for example `{"FLAIR": "z-score"}`.

    Returns:
      The schemes.

    Raises:
      ConfigError: `overrides` names a channel that is not in the records.
      DataError: a scheme or the window is invalid, or a scheme needs statistics that the records lack.
    """
    window, overrides = check_window(window), dict(overrides or {})
    names = manifest.description.channels
    unknown = [name for name in overrides if name not in names]
    if unknown:
        raise ConfigError(
            f"intensities: the records have no channel '{unknown[0]}'.{did_you_mean(unknown[0], names)} "
            f"Fix: use the names of their channels: {', '.join(names)}.",
            ["intensities"],
        )
    has_own_window = not is_plain_lits(manifest.description) and window == DEFAULT_WINDOW
    intensities = []
    for name, intensity in zip(names, manifest.intensities, strict=True):
        if name in overrides:
            intensity = parse_intensity(overrides[name], f"intensities: channel '{name}'")
        elif is_ct(name) and intensity.kind == WINDOW and not has_own_window:
            intensity = Intensity(WINDOW, window)
        # Without clipping, augmentation needs the standard deviation of the values.
        if (intensity.needs_statistics or intensity.kind == NONE) and not _has_statistics(manifest):
            raise DataError(
                f"intensities: channel '{name}' has the scheme '{intensity}', which needs statistics, but these "
                "records have none, as is the rule for LiTS. Fix: use a window, or add a dataset.json with this scheme "
                "to the cases and convert them to another folder.",
                ["intensities"],
            )
        intensities.append(intensity)
    return tuple(intensities)


def _has_statistics(manifest: Manifest) -> bool:
    return all(source.statistics for source in manifest.sources.values())


def _columns(name: str, scaling: Scaling, statistics: ChannelStatistics | None) -> tuple[float, ...]:
    """Returns the columns of `ChannelMaps` for one channel of one case."""
    if np.isfinite(scaling.high - scaling.low) or statistics is None:
        center, unit = (scaling.low + scaling.high) / 2, scaling.high - scaling.low
    elif scaling.keep_zero:
        center, unit = (statistics.nonzero_mean - scaling.offset) / scaling.scale, statistics.nonzero_sd / scaling.scale
    else:
        center, unit = (statistics.mean - scaling.offset) / scaling.scale, statistics.sd / scaling.scale
    beyond = float(scaling.apply(np.array([value_beyond(name)]))[0])
    unit = unit if unit > _SMALLEST_UNIT else 1.0
    lowest, highest = scaling.low, scaling.high
    if statistics is not None and not np.isfinite(highest - lowest):
        extremes = [(value - scaling.offset) / scaling.scale for value in (statistics.minimum, statistics.maximum)]
        lowest, highest = min(beyond, *extremes), max(beyond, *extremes)
    return (
        *(scaling.offset, scaling.scale, scaling.low, scaling.high, scaling.keep_zero),
        *(center, unit, beyond, lowest, highest),
    )
