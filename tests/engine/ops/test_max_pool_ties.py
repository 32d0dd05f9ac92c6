"""The first of the largest voxels of a window gets the gradient of a max pool, with every kernel of TensorFlow."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.ops.pool import local

SHAPE = (2, 7, 6, 5, 3)
WINDOWS = [(2, 2), (2, 3), (3, 2)]  # sizes and strides


def gradient(dtype, num_dims, ksize, strides):
    """Returns the gradient of a pool whose windows have many equal voxels; sums of the gradients are exact."""
    shape = [SHAPE[0], *SHAPE[1 : 1 + num_dims], SHAPE[-1]]
    x = np.random.default_rng(0).integers(-2, 3, shape)
    outputs = [(size - ksize) // strides + 1 for size in shape[1:-1]]
    dy = np.random.default_rng(1).integers(1, 9, [shape[0], *outputs, shape[-1]])
    fn = tf.function(lambda x, dy: local.max_pool_grad(x, dy, [ksize] * num_dims, [strides] * num_dims))
    return np.asarray(fn(tf.constant(x, dtype), tf.constant(dy, dtype)), np.float64)


def wrong():
    """Returns the dtype, dimensions, size and strides of the pools whose gradient differs from that in float64."""
    return [
        (dtype, num_dims, *window)
        for num_dims in (1, 2, 3)
        for window in WINDOWS
        for dtype in ("float32", "bfloat16", "float16")
        if (gradient(dtype, num_dims, *window) != gradient("float64", num_dims, *window)).any()
    ]


def test_every_dtype_and_window():
    assert not wrong()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [*WINDOWS, (1, 1), (3, 1)])
def test_the_gradient_of_planes(dtype, window, monkeypatch):
    monkeypatch.setattr(local, "_takes_one_voxel", lambda dtype: False)
    np.testing.assert_array_equal(gradient(dtype, 3, *window), gradient("float64", 3, *window))


@pytest.mark.slow
def test_without_onednn():
    environ = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    code = f"from {__name__} import local, tf, wrong; print(wrong(), local._takes_one_voxel(tf.float32))"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"
