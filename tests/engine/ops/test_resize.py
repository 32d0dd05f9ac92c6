"""Resizing: second derivatives, labels, NaN and error messages. `test_ops_equal_whole` tests values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.ops import resizing

SHAPE = "batch:1,x:4,y:6,z:2,channels:2"
SIZES = (8, 2, 4)
SPLIT = ("rows:2,cols:2", "x:rows,y:cols")


def values(seed=0):
    return np.random.default_rng(seed).standard_normal((1, 4, 6, 2, 2))


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_its_gradient_has_a_gradient(mesh_impl):
    def fn(x):
        y = mi.ops.resize3d(x, SIZES)
        (dx,) = mi.mtf.gradients([mi.mtf.reduce_sum(y * y * y)], [x])
        return mi.mtf.gradients([mi.mtf.reduce_sum(dx * dx)], [x])[0]

    x = tf.constant(values())
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            total = tf.reduce_sum(resizing.resize(x, SIZES, "linear") ** 3)
        dx = inner.gradient(total, x)
        total = tf.reduce_sum(dx * dx)
    want = outer.gradient(total, x)
    got = mi.Program(fn, {"x": (SHAPE, "float64")}, *SPLIT, mesh_impl=mesh_impl)(x=x)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_it_can_be_recomputed():
    def fn(x, run):
        y = run(lambda x: mi.mtf.square(mi.ops.resize3d(mi.mtf.square(x), SIZES)), x)
        return mi.mtf.gradients([mi.mtf.reduce_sum(y)], [x])[0]

    def gradient(run):
        return mi.Program(lambda x: fn(x, run), {"x": (SHAPE, "float64")}, *SPLIT)(x=values())

    kept = gradient(lambda fn, x: fn(x))
    np.testing.assert_allclose(gradient(mi.ops.recompute), kept, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_nearest_resizes_labels(dtype):
    labels = np.arange(4 * 6 * 2 * 2).reshape(1, 4, 6, 2, 2) % 3
    want = resizing.resize(tf.constant(labels, tf.float64), SIZES, "nearest")
    program = mi.Program(lambda x: mi.ops.resize3d(x, SIZES, "nearest"), {"x": (SHAPE, dtype)}, *SPLIT)
    got = program(x=labels.astype(dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, tf.cast(want, dtype))


def test_nan_affects_only_the_outputs_that_read_it():
    x = values()
    x[0, 1, 1, 0, 0] = np.nan
    got = mi.Program(lambda x: mi.ops.resize3d(x, (4, 12, 2)), {"x": (SHAPE, "float64")}, *SPLIT)(x=x).numpy()
    bad = np.argwhere(np.isnan(got))
    np.testing.assert_array_equal(bad, [[0, 1, y, 0, 0] for y in (1, 2, 3, 4)])


def test_equal_sizes_return_the_tensor():
    def fn(x):
        assert mi.ops.resize3d(x, (4, 6, 2)) is x
        return x

    mi.Program(fn, {"x": SHAPE})


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (lambda x: mi.ops.resize3d(x, (2, 2)), r"resize3d 'resize3d': sizes must be an int or 3 of them, not \(2, 2\)"),
        (lambda x: mi.ops.resize3d(x, 2.5), "sizes must be an int or 3 of them, not 2.5"),
        (lambda x: mi.ops.resize3d(x, 0), r"sizes must be at least 1, not \(0, 0, 0\)"),
        (lambda x: mi.ops.resize3d(x, 2, "cubic"), "method must be 'linear', 'nearest' or 'repeat', not 'cubic'"),
        (
            lambda x: mi.ops.resize3d(x, 2, "repeat", True),
            "method 'repeat' has no align_corners. Fix: drop align_corners",
        ),
        (
            lambda x: mi.ops.resize3d(mi.mtf.cast(x, tf.int32), 2),
            "needs a floating-point input, but the input is int32. Fix: use method=",
        ),
        (lambda x: mi.ops.resize3d(mi.mtf.reduce_sum(x, reduced_dim=x.shape.dims[0]), 2), "but its input has 4"),
    ],
)
def test_wrong_calls(op, message):
    with pytest.raises(mi.ShapeError, match=message):
        mi.Program(op, {"x": SHAPE})
