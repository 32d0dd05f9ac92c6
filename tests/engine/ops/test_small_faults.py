"""Small cases of operations that only one fault of the code breaks; `tests/mutants` lists these faults."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests import poison

mtf, ops = mi.mtf, mi.ops
IMPLS = ["stacked", "placement"]
RULES = ("rows:3,cols:2", "x:rows,y:cols")  # x:8 are slices of 3, 3, 2


def _run(fn, specs, *values, setup=RULES, impl="stacked"):
    program = mi.Program(fn, specs, *setup, mesh_impl=impl)
    return [np.array(value) for value in program(**dict(zip(specs, values, strict=True)))]


@pytest.mark.parametrize("setup", [RULES, ("rows:2,cols:2", "x:rows,y:cols")], ids=["uneven", "even"])
@pytest.mark.parametrize("impl", IMPLS)
def test_operations_with_the_same_windows_have_borders_of_their_own(impl, setup):
    """All widen the same tensor, but beyond the border a max pool reads minus infinity and the others read zeros."""
    x = -1 - np.random.default_rng(0).random((2, 8, 6, 1))
    f = np.random.default_rng(1).standard_normal((3, 3, 1, 1))

    def fn(x, f):
        return ops.conv2d(x, f), ops.max_pool2d(x, 3, 1, "SAME"), ops.avg_pool2d(x, 3, 1, "SAME")

    specs = {"x": ("batch:2,x:8,y:6,channels:1", "float64"), "f": ("kx:3,ky:3,channels:1,filters:1", "float64")}
    conv, largest, mean = _run(fn, specs, x, f, setup=setup, impl=impl)
    np.testing.assert_allclose(conv, tf.nn.conv2d(x, f, 1, "SAME"), rtol=1e-12)
    np.testing.assert_allclose(largest, tf.nn.max_pool2d(tf.constant(x), 3, 1, "SAME"), rtol=1e-12)
    np.testing.assert_allclose(mean, tf.nn.avg_pool2d(tf.constant(x), 3, 1, "SAME"), rtol=1e-12)


def test_without_a_split_the_gradient_of_a_filter_of_even_size_equals_tensorflow():
    """TensorFlow pads the windows of an even filter by one voxel more behind the voxels than in front of them."""
    rng = np.random.default_rng(0)
    x, f, w = (tf.constant(rng.standard_normal(shape)) for shape in ((1, 6, 5, 2), (2, 4, 2, 1), (1, 6, 5, 1)))

    def fn(x, f, w):
        return mtf.gradients([mtf.reduce_sum(ops.conv2d(x, f) * w)], [f])

    specs = {
        "x": ("batch:1,x:6,y:5,channels:2", "float64"),
        "f": ("kx:2,ky:4,channels:2,filters:1", "float64"),
        "w": ("batch:1,x:6,y:5,filters:1", "float64"),
    }
    (df,) = _run(fn, specs, x, f, w, setup=("", ""))
    with tf.GradientTape() as tape:
        tape.watch(f)
        total = tf.reduce_sum(tf.nn.conv2d(x, f, 1, "SAME") * w)
    np.testing.assert_allclose(df, tape.gradient(total, f), rtol=1e-11)


def test_without_a_split_strides_may_exceed_the_kernel_in_float64():
    """TensorFlow's SAME padding is wrong if the last voxels belong to no window."""
    rng = np.random.default_rng(0)
    x, f = rng.standard_normal((1, 8, 6, 5, 2)), rng.standard_normal((2, 2, 1, 2, 3))
    specs = {
        "x": ("batch:1,x:8,y:6,z:5,channels:2", "float64"),
        "f": ("kx:2,ky:2,kz:1,channels:2,filters:3", "float64"),
    }
    (y,) = _run(lambda x, f: [ops.conv3d(x, f, (4, 3, 2))], specs, x, f, setup=("", ""))
    expected = sum(x[:, i::4, j::3, ::2] @ f[i, j, 0] for i in range(2) for j in range(2))
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_an_infinite_voxel_affects_only_the_taps_that_read_it_if_the_last_slice_has_a_tail():
    """Five windows over three processors: the last slice has one window and a tail of one."""
    x = np.ones((1, 7, 1))
    x[0, 6] = np.inf

    def fn(x, f):
        return mtf.gradients([mtf.reduce_sum(ops.conv1d(x, f, 1, "VALID"))], [f])

    specs = {"x": ("batch:1,x:7,channels:1", "float64"), "f": ("kx:3,channels:1,filters:1", "float64")}
    (df,) = _run(fn, specs, x, np.ones((3, 1, 1)), setup=("rows:3", "x:rows"))
    np.testing.assert_array_equal(df.ravel(), [5, 5, np.inf])


def test_means_of_volumes_in_float64():
    """TensorFlow has no such kernel on the CPU."""
    rng, kernel, strides = np.random.default_rng(0), (3, 2, 2), (2, 1, 2)
    x = rng.standard_normal((1, 8, 6, 4, 2))
    every = tuple(slice(None, None, stride) for stride in strides)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, (1, 2, 3))[(slice(None), *every)]
    w = rng.standard_normal(windows.shape[:5])
    expected = np.zeros(x.shape)
    for at in np.ndindex(*w.shape[1:4]):
        begins = [place * stride for place, stride in zip(at, strides, strict=True)]
        own = tuple(slice(begin, begin + k) for begin, k in zip(begins, kernel, strict=True))
        expected[(slice(None), *own)] += w[(slice(None), *at)][:, None, None, None] / np.prod(kernel)

    def fn(x, w):
        y = ops.avg_pool3d(x, kernel, strides)
        return y, *mtf.gradients([mtf.reduce_sum(y * w)], [x])

    specs = {"x": ("batch:1,x:8,y:6,z:4,channels:2", "float64")}
    specs["w"] = (",".join(f"{name}:{n}" for name, n in zip(("batch", *"xyz", "channels"), w.shape)), "float64")
    for setup in (("", ""), RULES):
        y, dx = _run(fn, specs, x, w, setup=setup)
        np.testing.assert_allclose(y, windows.mean((-3, -2, -1)), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(dx, expected, rtol=1e-12, atol=1e-14)


def test_a_mean_after_a_second_derivative_of_a_max_pool_reads_no_tail():
    """Both have the same windows, so they share the widened slices of the weights."""
    x, weights = (np.random.default_rng(seed).standard_normal((1, 8, 1)) for seed in range(2))

    def fn(x, w, v):
        v = mtf.identity(v)
        (dx,) = mtf.gradients([mtf.reduce_sum(ops.max_pool1d(x, 3, 1, "SAME") * w)], [x])
        (dw,) = mtf.gradients([dx], [w], [v])
        return dw, ops.avg_pool1d(v, 3, 1, "SAME")

    specs = dict.fromkeys("xwv", ("batch:1,x:8,channels:1", "float64"))
    dw, mean = _run(fn, specs, x, np.ones((1, 8, 1)), weights, setup=("rows:3", "x:rows"))
    largest = [max(range(max(0, i - 1), min(8, i + 2)), key=x[0, :, 0].__getitem__) for i in range(8)]
    np.testing.assert_allclose(dw, weights[:, largest], rtol=1e-12)
    np.testing.assert_allclose(mean, tf.nn.avg_pool1d(tf.constant(weights), 3, 1, "SAME"), rtol=1e-12)


def test_operations_that_ignore_tails_by_different_numbers_may_read_one_tensor():
    """A sum leaves zeros in the tails, where a minimum, a maximum and a max pool need other numbers."""
    x = np.random.default_rng(0).uniform(1, 2, (1, 8, 1))

    def fn(x):
        y = mtf.negative(x)
        sums = mtf.reduce_sum(x), mtf.reduce_sum(y)
        return *sums, mtf.reduce_min(x), mtf.reduce_max(y), ops.max_pool1d(y, 3, 1, "SAME")

    with poison.removed():
        *numbers, pool = _run(fn, {"x": ("batch:1,x:8,channels:1", "float64")}, x, setup=("rows:3", "x:rows"))
    np.testing.assert_allclose(numbers, [x.sum(), -x.sum(), x.min(), -x.min()], rtol=1e-12)
    np.testing.assert_allclose(pool, tf.nn.max_pool1d(tf.constant(-x), 3, 1, "SAME"), rtol=1e-12)


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
