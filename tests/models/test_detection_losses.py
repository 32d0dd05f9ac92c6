"""Losses of detectors with 16-bit logits are those of TensorFlow in float64."""

import pytest
import tensorflow as tf

from mtf_imaging.models.detection.losses import focal_loss, huber_loss
from tests.engine.ops.test_losses import SETUPS, check_16_bits


def _tf_focal(logits, labels):
    p = tf.sigmoid(logits)
    right = tf.where(tf.one_hot(labels, 4) > 0, p, 1 - p)
    weight = tf.where(tf.one_hot(labels, 4) > 0, tf.constant(0.25, p.dtype), tf.constant(0.75, p.dtype))
    return tf.reduce_sum(-weight * (1 - right) ** 1.5 * tf.math.log(right), -1)


LOSSES = {
    "focal_loss": ("logits", lambda x, labels, **_: focal_loss(x, labels), lambda x, labels, **_: _tf_focal(x, labels)),
    "huber_loss": (
        "logits",
        lambda x, targets, **_: huber_loss(x, targets, 1.5),
        lambda x, targets, **_: tf.where(
            tf.abs(x - targets) < 1.5, (x - targets) ** 2 / 2, 1.5 * (tf.abs(x - targets) - 0.75)
        ),
    ),
}


@pytest.mark.parametrize("setup", SETUPS, ids=str)
@pytest.mark.parametrize(("dtype", "digits"), [("bfloat16", 8), ("float16", 11)])
def test_losses_of_16_bits_are_computed_in_float32(dtype, digits, setup):
    check_16_bits(LOSSES, dtype, digits, setup)
