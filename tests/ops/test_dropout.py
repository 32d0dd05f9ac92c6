"""Random bits take memory only while they are used, from the first call on."""

import pytest
import tensorflow as tf

import mtf_imaging as mi


def test_masks_are_drawn_when_they_are_needed():
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
    except ValueError:
        pytest.skip("TensorFlow counts no bytes of this processor")
    size = 1024

    def fn(image):
        x = image
        for i in range(8):
            x = mi.ops.dropout(x, 0.5, name=f"dropout{i}")
        return mi.mtf.reduce_sum(mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(x))], [image])[0])

    program, image = mi.Program(fn, {"image": f"x:{size},y:{size}"}), tf.zeros([size, size])
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    program(image=image)
    # The gradient draws 8 masks again. Of each there are random bits, what they are made of, and what comes of them.
    assert (tf.config.experimental.get_memory_info("CPU:0")["peak"] - before) / (4 * size**2) <= 6
