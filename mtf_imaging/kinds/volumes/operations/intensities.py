"""Intensity schemes as TensorFlow operations, with the arithmetic of `data.intensities` in float32."""

import math
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.data.intensities import (
    NONZERO_Z_SCORE,
    PERCENTAGES,
    PERCENTILES,
    SMALLEST_SCALE,
    Z_SCORE,
    Intensity,
    Scaling,
)
from mtf_imaging.data.modality import AIR_HU, MAX_HU, is_ct, value_beyond
from mtf_imaging.evaluation.export.constants import divisor

#: The meaning of a channel's inputs `offset` and `scale`, by the kind of its scheme.
STATISTICS = {
    Z_SCORE: ("the mean of all voxels of the image", "their standard deviation"),
    NONZERO_Z_SCORE: ("the mean of the voxels of the image that are not 0", "their standard deviation"),
    PERCENTILES: ("percentile 0.5 of all voxels of the image", "percentile 99.5 minus percentile 0.5"),
}
_EXTREMES = ("the minimum of the image", "the maximum minus the minimum")


def repair_values(values: tf.Tensor, channels: Sequence[str]) -> tf.Tensor:
    """Replaces impossible values, as `predict` does when it reads a file; see `data.images.repairs`.

    Args:
      values: float32 `[..., channels]`.
      channels: the names of the channels.
    """
    are_ct = tf.constant([*map(is_ct, channels)])
    is_fault = tf.math.is_nan(values) | (tf.math.is_inf(values) & ~are_ct)
    values = tf.where(is_fault, tf.constant([value_beyond(name) for name in channels], tf.float32), values)
    low, high = tf.where(are_ct, float(AIR_HU), -math.inf), tf.where(are_ct, float(MAX_HU), math.inf)
    return round_hu(tf.clip_by_value(values, low, high), channels)


def round_hu(values: tf.Tensor, channels: Sequence[str]) -> tf.Tensor:
    """Rounds Hounsfield units to integers, as records do."""
    are_ct = [*map(is_ct, channels)]
    if all(are_ct):
        return tf.round(values)
    return tf.where(tf.constant(are_ct), tf.round(values), values) if any(are_ct) else values


def statistics_meaning(intensity: Intensity) -> tuple[str, str]:
    """Returns the meaning of `offset` and `scale` for a channel with this scheme."""
    if not intensity.needs_statistics:
        return "any number", "any number; the scheme needs none"
    return STATISTICS.get(intensity.kind, _EXTREMES)


def scale_channels(
    values: tf.Tensor, intensities: Sequence[Intensity], statistics: tuple[tf.Tensor, tf.Tensor] | None = None
) -> tf.Tensor:
    """Returns the input of a network, float32 `[..., channels]`.

    Args:
      values: float32 `[..., channels]`.
      intensities: the intensity scheme of each channel.
      statistics: offset and scale of each channel, float32 `[channels]`, for schemes that depend on the image.
    """
    channels = []
    for number, intensity in enumerate(intensities):
        own = values[..., number]
        if intensity.needs_statistics:
            assert statistics is not None
            bounds = (0.0, 1.0) if intensity.kind not in (Z_SCORE, NONZERO_Z_SCORE) else (-math.inf, math.inf)
            form = Scaling(0.0, 1.0, *bounds, keep_zero=intensity.kind == NONZERO_Z_SCORE)
            channels.append(_scale(own, statistics[0][number], statistics[1][number], form))
        else:
            form = intensity.scaling()
            channels.append(_scale(own, tf.constant(form.offset, tf.float32), divisor(form.scale), form))
    return tf.stack(channels, axis=-1)


def _scale(values: tf.Tensor, offset: tf.Tensor, scale: tf.Tensor, form: Scaling) -> tf.Tensor:
    scaled = (values - offset) / scale
    if math.isfinite(form.low) or math.isfinite(form.high):
        scaled = tf.clip_by_value(scaled, form.low, form.high)
    return tf.where(values == 0, tf.zeros_like(scaled), scaled) if form.keep_zero else scaled


def image_statistics(values: tf.Tensor, intensities: Sequence[Intensity]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the offset and the scale of each channel of a whole image, float32 `[channels]`, for `scale_channels`.

    Args:
      values: float32 `[x, y, z, channels]`, an image at its own voxel size.
      intensities: the intensity scheme of each channel.
    """
    pairs = [_offset_and_scale(values[..., number], intensity) for number, intensity in enumerate(intensities)]
    offsets, scales = zip(*pairs, strict=True)
    return tf.cast(tf.stack(offsets), tf.float32), tf.cast(tf.stack(scales), tf.float32)


def _offset_and_scale(values: tf.Tensor, intensity: Intensity) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the offset and the scale of one channel, float64; see `Intensity.scaling`."""
    flat = tf.reshape(values, [-1])
    if not intensity.needs_statistics:
        low, scale = tf.zeros([], tf.float64), tf.ones([], tf.float64)
    elif intensity.kind == PERCENTILES:
        ordered = tf.sort(flat)
        low, high = (_percentile(ordered, percentage) for percentage in PERCENTAGES)
        scale = high - low
    elif intensity.kind in (Z_SCORE, NONZERO_Z_SCORE):
        counted = tf.cast(flat != 0 if intensity.kind == NONZERO_Z_SCORE else tf.ones_like(flat, tf.bool), tf.float64)
        number, wide = tf.maximum(tf.reduce_sum(counted), 1.0), tf.cast(flat, tf.float64)
        low = tf.reduce_sum(wide) / number  # zeros do not change the sum
        scale = tf.sqrt(tf.reduce_sum(tf.square(wide - low) * counted) / number)
    else:
        low, high = (tf.cast(reduce(flat), tf.float64) for reduce in (tf.reduce_min, tf.reduce_max))
        scale = high - low
    return low, tf.where(scale > SMALLEST_SCALE, scale, tf.ones_like(scale))


def _percentile(ordered: tf.Tensor, percentage: float) -> tf.Tensor:
    """Returns a percentile of ordered values by linear interpolation, as in NumPy."""
    place = tf.cast(tf.size(ordered, tf.int64) - 1, tf.float64) * (percentage / 100)
    before = tf.floor(place)
    first = tf.cast(before, tf.int64)
    after = tf.minimum(first + 1, tf.size(ordered, tf.int64) - 1)
    low, high = (tf.cast(ordered[at], tf.float64) for at in (first, after))
    return low + (high - low) * (place - before)
