"""The scaling of pixel values as a TensorFlow operation."""

import tensorflow as tf

from mtf_imaging.data.pixels.scaling import padding_value, pixel_unit
from mtf_imaging.evaluation.export.constants import divisor


def scale_pixels(pixels: tf.Tensor, scaling: str) -> tf.Tensor:
    """Returns the input of a network, float32 `[..., 3]`; see `data.pixels.scaling`."""
    return (tf.cast(pixels, tf.float32) - padding_value(scaling)) / divisor(pixel_unit(scaling))
