"""Intensity schemes in TensorFlow graphs: of training, and of exported networks, which measure images themselves."""

import functools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from mtf_imaging.data.intensities.scaling import Scaling
from mtf_imaging.data.intensities.schemes import SMALLEST_SCALE, Intensity
from mtf_imaging.data.intensities.statistics import PERCENTAGES
from mtf_imaging.data.intensities.value_ranges import ValueRanges
from mtf_imaging.engine.meshes.portable import divisor

Row = TypeVar("Row", Scaling, ValueRanges)


def tabulate(rows: Sequence[Sequence[Row]]) -> Row:
    """Returns the attributes of all cases as arrays `[cases, channels]`, float32 except for `keep_zero`."""
    kind = type(rows[0][0])
    columns = np.moveaxis(np.array(rows, np.float64), 2, 0)
    dtypes = [bool if name == "keep_zero" else np.float32 for name in kind._fields]
    return kind(*(column.astype(dtype) for column, dtype in zip(columns, dtypes, strict=True)))


def table_row(table: Row, case: tf.Tensor) -> Row:
    """Returns the attributes of one case, Tensor[channels] each; `case` is Tensor[] int64."""
    return type(table)(*(tf.gather(tf.constant(column), case) for column in table))


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
        if intensity.needs_statistics:
            assert statistics is not None
            scaling = intensity.scheme.form._replace(offset=statistics[0][number], scale=statistics[1][number])
        else:
            scaling = intensity.scaling()
            scaling = scaling._replace(scale=divisor(scaling.scale))
        channels.append(scaling.overwrite(values[..., number]))
    return tf.stack(channels, axis=-1)


def image_statistics(values: tf.Tensor, intensities: Sequence[Intensity]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the offset and the scale of each channel of a whole image, float32 `[channels]`, for `scale_channels`.

    Args:
      values: float32 `[x, y, z, channels]`, an image at its own voxel size.
      intensities: the intensity scheme of each channel.
    """
    offsets, scales = [], []
    for number, intensity in enumerate(intensities):
        offset, scale = tf.zeros([], tf.float64), tf.ones([], tf.float64)
        if intensity.needs_statistics:
            offset, scale = intensity.scheme.place(intensity, _Statistics(values[..., number]))
        offsets.append(offset)
        scales.append(tf.where(scale > SMALLEST_SCALE, scale, tf.ones_like(scale)))
    return tf.cast(tf.stack(offsets), tf.float32), tf.cast(tf.stack(scales), tf.float32)


class _Statistics:
    """The attributes of `ChannelStatistics` as float64 tensors, each computed when it is needed.

    Args:
      values: float32 of any shape.
    """

    def __init__(self, values: tf.Tensor) -> None:
        self._values = tf.reshape(values, [-1])

    @functools.cached_property
    def _all(self) -> tuple[tf.Tensor, tf.Tensor]:
        return self._mean_and_sd(tf.ones_like(self._values, tf.bool))

    @functools.cached_property
    def _nonzero(self) -> tuple[tf.Tensor, tf.Tensor]:
        return self._mean_and_sd(self._values != 0)

    @functools.cached_property
    def _percentiles(self) -> list[tf.Tensor]:
        ordered = tf.sort(self._values)
        return [_percentile(ordered, percentage) for percentage in PERCENTAGES]

    mean = property(lambda self: self._all[0])
    sd = property(lambda self: self._all[1])
    nonzero_mean = property(lambda self: self._nonzero[0])
    nonzero_sd = property(lambda self: self._nonzero[1])
    low_percentile = property(lambda self: self._percentiles[0])
    high_percentile = property(lambda self: self._percentiles[1])
    minimum = property(lambda self: tf.cast(tf.reduce_min(self._values), tf.float64))
    maximum = property(lambda self: tf.cast(tf.reduce_max(self._values), tf.float64))

    def _mean_and_sd(self, is_counted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mean and the standard deviation of nonzero values, and of those zeros that are counted."""
        counted, values = tf.cast(is_counted, tf.float64), tf.cast(self._values, tf.float64)
        number = tf.maximum(tf.reduce_sum(counted), 1.0)
        mean = tf.reduce_sum(values) / number  # zeros do not change the sum
        return mean, tf.sqrt(tf.reduce_sum(tf.square(values - mean) * counted) / number)


def _percentile(ordered: tf.Tensor, percentage: float) -> tf.Tensor:
    """Returns a percentile of ordered values by linear interpolation, as in NumPy."""
    place = tf.cast(tf.size(ordered, tf.int64) - 1, tf.float64) * (percentage / 100)
    before = tf.floor(place)
    first = tf.cast(before, tf.int64)
    after = tf.minimum(first + 1, tf.size(ordered, tf.int64) - 1)
    low, high = (tf.cast(ordered[at], tf.float64) for at in (first, after))
    return low + (high - low) * (place - before)
