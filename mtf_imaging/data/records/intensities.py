"""The intensity schemes of a records folder, and the network input of its records in a TensorFlow graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.data.intensities.scaling import Scaling
from mtf_imaging.data.intensities.schemes import NONE, WINDOW, Intensity, channel_scalings, parse_intensity
from mtf_imaging.data.intensities.tensors import table_row, tabulate
from mtf_imaging.data.intensities.value_ranges import WINDOWED, ValueRanges, value_ranges
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.records.manifest import Manifest, is_plain_lits
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.spelling import did_you_mean


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
        hint = did_you_mean(unknown[0], names)
        fix = f"use the names of their channels: {', '.join(names)}"
        what = f"intensities: the records have no channel '{unknown[0]}'.{hint} Fix: {fix}."
        raise ConfigError(what, ["intensities"])
    has_own_window = not is_plain_lits(manifest.description) and window == DEFAULT_WINDOW
    intensities = []
    for name, intensity in zip(names, manifest.intensities, strict=True):
        if name in overrides:
            intensity = parse_intensity(overrides[name], f"intensities: channel '{name}'")
        elif is_ct(name) and intensity.kind == WINDOW and not has_own_window:
            intensity = Intensity(WINDOW, window)
        # Without clipping, augmentation needs the standard deviation of the values.
        if (intensity.needs_statistics or intensity.kind == NONE) and not _has_statistics(manifest):
            what = f"channel '{name}' has the scheme '{intensity}', which needs statistics, but these records have none"
            fix = "use a window, or add a dataset.json with this scheme to the cases and convert them to another folder"
            raise DataError(f"intensities: {what}. Fix: {fix}.", ["intensities"])
        intensities.append(intensity)
    return tuple(intensities)


def _has_statistics(manifest: Manifest) -> bool:
    return all(source.statistics for source in manifest.sources.values())


def network_input(manifest: Manifest, schemes: Sequence[Intensity]) -> Callable:
    """Returns a function of the stored values and the case number, Tensor[] int64.

    It returns the image, Tensor[x, y, z, channels] float32, and the `ValueRanges` of the case.

    Args:
      manifest: the manifest, with each case's channel statistics.
      schemes: the intensity scheme of each channel; see `resolve_intensities`.
    """
    if is_plain_lits(manifest.description) and schemes[0].kind == WINDOW:
        # The bounds are rounded before they are subtracted. In predictions, their difference is rounded. So the inputs
        # may differ in the last bit if float32 does not represent the bounds.
        low, high = (np.float32(bound) for bound in schemes[0].window)
        window = schemes[0].scheme.form._replace(offset=low, scale=high - low)

        def windowed(hu, case):
            del case  # all cases have the same window
            return window.overwrite(tf.cast(hu, tf.float32))[..., tf.newaxis], WINDOWED

        return windowed
    scalings, ranges = (tabulate(rows) for rows in zip(*_rows(manifest, schemes), strict=True))

    def scaled(values, case):
        values = values if values.shape.rank == 4 else values[..., tf.newaxis]
        return table_row(scalings, case).overwrite(tf.cast(values, tf.float32)), table_row(ranges, case)

    return scaled


def _rows(manifest: Manifest, schemes: Sequence[Intensity]) -> Iterator[tuple[list[Scaling], list[ValueRanges]]]:
    """Yields the scaling and the value range of each channel, for each case."""
    for source in manifest.sources.values():
        statistics = source.statistics
        scalings = channel_scalings(schemes, statistics)
        known = statistics or [None] * len(scalings)
        yield scalings, [*map(value_ranges, manifest.description.channels, scalings, known)]
