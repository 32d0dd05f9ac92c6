"""Repairs of the values of images as TensorFlow operations."""

import math
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.data.modality import AIR_HU, MAX_HU, is_ct, value_beyond


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
