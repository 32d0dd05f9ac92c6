"""Small cases of operations that only one fault of the code breaks; `tests/mutants` lists these faults."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi

mtf, ops = mi.mtf, mi.ops
IMPLS = ["stacked", "placement"]
RULES = ("rows:3,cols:2", "x:rows,y:cols")  # x:8 are slices of 3, 3, 2


def _run(fn, specs, *values, setup=RULES, impl="stacked"):
    program = mi.Program(fn, specs, *setup, mesh_impl=impl)
    return [np.array(value) for value in program(**dict(zip(specs, values, strict=True)))]


@pytest.mark.parametrize("impl", IMPLS)
def test_a_convolution_and_a_max_pool_of_the_same_windows_have_borders_of_their_own(impl):
    """Both widen the same tensor, but beyond the border a convolution reads zeros and a pool minus infinity."""
    x = -1 - np.random.default_rng(0).random((2, 8, 6, 1))
    f = np.random.default_rng(1).standard_normal((3, 3, 1, 1))

    def fn(x, f):
        return ops.conv2d(x, f), ops.max_pool2d(x, 3, 1, "SAME")

    specs = {"x": ("batch:2,x:8,y:6,channels:1", "float64"), "f": ("kx:3,ky:3,channels:1,filters:1", "float64")}
    conv, pool = _run(fn, specs, x, f, impl=impl)
    np.testing.assert_allclose(conv, tf.nn.conv2d(x, f, 1, "SAME"), rtol=1e-12)
    np.testing.assert_allclose(pool, tf.nn.max_pool2d(tf.constant(x), 3, 1, "SAME"), rtol=1e-12)


@pytest.mark.parametrize("sizes", [(8, 6), (8, 6, 4)], ids=str)
def test_the_second_derivative_of_a_max_pool_has_one_of_several_largest_voxels(sizes):
    """All voxels of a window are negative and equal, and the last window of a slice ends at a tail or at the border."""
    names = ["x", "y", "z"][: len(sizes)]
    pool = {2: ops.max_pool2d, 3: ops.max_pool3d}[len(sizes)]
    x = np.full((1, *sizes, 1), -2.0)
    weights = np.random.default_rng(0).standard_normal(x.shape)

    def fn(x, w, v):
        (dx,) = mtf.gradients([mtf.reduce_sum(pool(x, 2, 2) * w)], [x])
        return mtf.gradients([mtf.reduce_sum(dx * v)], [w])

    half = [n // 2 for n in sizes]
    shape = ",".join(["batch:1", *(f"{name}:{n}" for name, n in zip(names, sizes)), "channels:1"])
    outputs = ",".join(["batch:1", *(f"{name}:{n}" for name, n in zip(names, half)), "channels:1"])
    specs = {"x": (shape, "float64"), "w": (outputs, "float64"), "v": (shape, "float64")}
    (dw,) = _run(fn, specs, x, np.ones((1, *half, 1)), weights)
    np.testing.assert_allclose(dw, weights[(slice(None), *[slice(None, None, 2)] * len(sizes))], rtol=1e-12)


def test_an_activation_before_a_sum_and_a_dropout_has_the_signs_of_its_own_result():
    x = np.random.default_rng(0).standard_normal((4, 8))

    def fn(x):
        y = ops.dropout(ops.leaky_relu(x, 0.25) + 10.0, 0.5)
        return y, *mtf.gradients([mtf.reduce_sum(y)], [x])

    y, dx = _run(fn, {"x": ("batch:4,x:8", "float64")}, x, setup=("rows:3", "x:rows"))
    np.testing.assert_allclose(dx, np.where(y > 0, 2.0, 0.0) * np.where(x > 0, 1.0, 0.25), rtol=1e-12)
