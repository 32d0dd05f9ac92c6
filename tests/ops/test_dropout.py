"""Masks are drawn for few elements at a time, when they are needed: the same masks, in less memory."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.meshes.random import positions


@pytest.mark.parametrize("layout", [{}, {"mesh_shape": "rows:2,cols:2", "layout": "x:rows,z:cols"}])
def test_a_mask_does_not_depend_on_how_many_are_drawn_at_a_time(layout, monkeypatch):
    def mask():
        program = mi.Program(lambda image: mi.ops.dropout(image, 0.5), {"image": "batch:2,x:4,y:3,z:6"}, **layout)
        return program(image=np.ones((2, 4, 3, 6))).numpy()

    at_once = mask()
    assert 0 < at_once.mean() < 2
    for elements in (1, 7, 40):
        monkeypatch.setattr(positions, "AT_ONCE", elements)
        np.testing.assert_array_equal(mask(), at_once)


def test_masks_are_drawn_when_they_are_needed():
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
    except ValueError:
        pytest.skip("TensorFlow counts no bytes of this processor")
    size = 2048

    def fn(image):
        x = image
        for i in range(8):
            x = mi.ops.dropout(x, 0.5, name=f"dropout{i}")
        return mi.mtf.reduce_sum(mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(x))], [image])[0])

    program, image = mi.Program(fn, {"image": f"x:{size},y:{size}"}), tf.zeros([size, size])
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    program(image=image)
    # The gradient draws 8 masks again, of bytes; the tensors are x, what dropout makes of it, and one on the way.
    assert (tf.config.experimental.get_memory_info("CPU:0")["peak"] - before) / (4 * size**2) <= 4
