"""Convolutions for which TensorFlow's kernels fail: strided kernels of one tap, and unsupported dilations."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.ops.conv import local as local_conv

mtf = mi.mtf

STRIDED_CONV = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
import mtf_imaging as mi

def step(image, kernel):
    y = mi.ops.conv2d(image, kernel, 2)
    return y, *mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y))], [image, kernel])

image = np.random.default_rng(0).standard_normal([2, 56, 56, 16]).astype(np.float32)
kernel = np.random.default_rng(1).standard_normal([1, 1, 16, 16]).astype(np.float32)
inputs = {"image": "batch:2,x:56,y:56,channels:16", "kernel": "kx:1,ky:1,channels:16,filters:16"}
for mesh_impl in ("stacked", "placement"):
    program = mi.Program(step, inputs, "m0:4", "channels:m0", mesh_impl)
    for _ in range(4):
        y, dx, df = program(image=image, kernel=kernel)
    inputs_read = image[:, ::2, ::2].reshape([-1, 16])
    np.testing.assert_allclose(df[0, 0], inputs_read.T @ (2 * inputs_read @ kernel[0, 0]), rtol=1e-4, atol=1e-2)
"""


@pytest.mark.slow
def test_splitting_the_channels_of_a_strided_1x1_convolution_does_not_crash():
    """TensorFlow 2.21 corrupts memory in the filter gradient of such a convolution if it has few channels."""
    result = subprocess.run([sys.executable, "-c", STRIDED_CONV], capture_output=True, text=True)
    assert result.returncode == 0, (
        f"{signal.Signals(-result.returncode).name if result.returncode < 0 else result.returncode}: "
        f"{result.stderr[-2000:]}"
    )


DILATED_OR_GROUPED = """
import numpy as np
import mtf_imaging as mi

def step(image, kernel, grouped):
    y = mi.ops.conv3d(mi.ops.conv3d(image, kernel, dilations=(1, 2, 3)), grouped, groups=2)
    return y, *mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y))], [image, kernel, grouped])

shapes = {
    "image": "batch:1,x:6,y:7,z:8,channels:4",
    "kernel": "fx:2,fy:3,fz:2,channels:4,filters:4",
    "grouped": "fx:2,fy:2,fz:2,part:2,outputs:4",
}
rng = np.random.default_rng(0)
arrays = {name: rng.standard_normal([n for _, n in mi.layout.parse_shape(shape)]) for name, shape in shapes.items()}
exact = mi.Program(step, {name: (shape, "float64") for name, shape in shapes.items()})(**arrays)
for split in ({}, {"mesh_shape": "rows:2", "layout": "y:rows"}):
    for result, expected in zip(mi.Program(step, shapes, **split)(**arrays), exact, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
"""


@pytest.mark.slow
def test_dilations_and_groups_have_gradients_without_onednn():
    """TensorFlow does not use oneDNN by default on CPUs without instructions for neural networks."""
    environ = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run([sys.executable, "-c", DILATED_OR_GROUPED], env=environ, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]


def _kernels(program):
    """Returns (extents, strides) of every convolution in the graph, including its two gradients."""
    kernels = set()
    for op in program.function.graph.get_operations():
        if "Conv2D" in op.type or "Conv3D" in op.type:
            kernel = op.outputs[0] if "BackpropFilter" in op.type else op.inputs[1]
            kernels.add((tuple(kernel.shape[:-2]), tuple(op.get_attr("strides")[1:-1])))
    return kernels


@pytest.mark.mostly_slow(fast=0.2)
@pytest.mark.parametrize(
    ("kernel", "strides"),
    [
        ((1,), (2,)),
        ((1, 1), (2, 2)),
        ((1, 3), (2, 2)),
        ((1, 1, 1), (2, 2, 2)),
        ((3, 1, 2), (1, 2, 3)),
        ((2, 1, 1), (2, 4, 2)),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_tensorflow_kernels_of_one_tap_are_never_strided(kernel, strides, transposed):
    """This holds for the forward pass, for gradients, and for gradients of gradients."""
    names = ["x", "y", "z"][: len(kernel)]
    op = getattr(mi.ops, f"conv{len(kernel)}d_transpose" if transposed else f"conv{len(kernel)}d")

    def step(image, kernel):
        y = op(image, kernel, strides)
        gradients = mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])
        total = mtf.add_n([mtf.reduce_sum(mtf.square(g)) for g in gradients])
        return y, *gradients, *mtf.gradients([total], [image, kernel])

    taps = [f"k{name}:{k}" for name, k in zip(names, kernel, strict=True)]
    channels = ["filters:2", "channels:4"] if transposed else ["channels:4", "filters:2"]
    inputs = {
        "image": ",".join(["batch:2", *(f"{name}:12" for name in names), "channels:4"]),
        "kernel": ",".join([*taps, *channels]),
    }
    kernels = _kernels(mi.Program(step, inputs, "rows:2,model:2", "x:rows,channels:model"))
    assert kernels
    assert all(stride == 1 for kernel in kernels for extent, stride in zip(*kernel, strict=True) if extent == 1)


def _pairs(sizes, outputs, dilations, padding):
    """Yields (tap, outputs, voxels) for every tap of a kernel with 3 taps in each dimension.

    `outputs` and `voxels` are slices of equal size: output i reads voxel i.
    """
    for tap in np.ndindex(*(3 for _ in sizes)):
        windows, voxels = [slice(None)], [slice(None)]
        for t, n, o, d in zip(tap, sizes, outputs, dilations, strict=True):
            shift = (t - 1) * d if padding == "SAME" else t * d
            first, end = max(0, -shift), min(o, n - shift)
            windows.append(slice(first, end))
            voxels.append(slice(first + shift, end + shift))
        yield tap, tuple(windows), tuple(voxels)


def _infinite(fn, *args):
    return ~np.isfinite(tf.function(fn)(*args).numpy())


@pytest.mark.mostly_slow(fast=0.2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilations", [(1, 1, 2), (3, 1, 2), (2, 2, 2), (1, 3), (2, 2), (2,)], ids=str)
def test_an_infinite_voxel_affects_only_the_outputs_that_read_it(dilations, padding, dtype):
    """No voxel is multiplied by a zero between taps, neither in the output nor in the gradients."""
    sizes = [9, 8, 10][: len(dilations)]
    outputs = sizes if padding == "SAME" else [n - 2 * d for n, d in zip(sizes, dilations, strict=True)]
    pairs = list(_pairs(sizes, outputs, dilations, padding))
    args = [1] * len(dilations), padding, dilations
    f = np.random.default_rng(0).uniform(1, 2, [*(3 for _ in dilations), 1, 2])
    x, dy = np.zeros([1, *sizes, 1]), np.zeros([1, *outputs, 2])
    x[(0, *(n // 2 for n in sizes))] = dy[(0, *(n // 2 for n in outputs))] = np.inf
    y, dx = np.zeros(dy.shape, bool), np.zeros(x.shape, bool)
    for _, windows, voxels in pairs:
        y[windows] |= x[voxels] > 0
        dx[voxels] |= dy[windows][..., :1] > 0
    f, x, dy = (tf.constant(value, dtype) for value in (f, x, dy))
    np.testing.assert_array_equal(_infinite(lambda x, f: local_conv.conv(x, f, *args), x, f), y)
    np.testing.assert_array_equal(_infinite(lambda f, dy: local_conv.conv_input_grad(x.shape, f, dy, *args), f, dy), dx)


@pytest.mark.parametrize("dilations", [(1, 1, 2), (1, 3)], ids=str)
def test_an_infinite_voxel_in_a_corner_affects_only_the_taps_that_read_it(dilations):
    sizes = [9, 8, 10][: len(dilations)]
    outputs = [n - 2 * d for n, d in zip(sizes, dilations, strict=True)]
    x, dy = np.zeros([1, *sizes, 1], np.float32), np.ones([1, *outputs, 2], np.float32)
    x[(0,) * x.ndim] = np.inf
    shape = [*(3 for _ in dilations), 1, 2]
    df = _infinite(
        lambda x, dy: local_conv.conv_filter_grad(x, shape, dy, [1] * len(dilations), "VALID", dilations), x, dy
    )
    expected = np.zeros(shape, bool)
    expected[(0,) * len(dilations)] = True
    np.testing.assert_array_equal(df, expected)


def test_an_infinite_voxel_affects_the_same_outputs_under_every_layout():
    image = np.zeros([1, 8, 8, 8, 1], np.float32)
    image[0, 3, 4, 5, 0] = np.inf
    kernel = np.random.default_rng(0).uniform(1, 2, [3, 3, 3, 1, 1]).astype(np.float32)
    inputs = {"image": "batch:1,x:8,y:8,z:8,channels:1", "kernel": "kx:3,ky:3,kz:3,channels:1,filters:1"}
    counts = set()
    for mesh, layout in [("", ""), ("rows:2", "x:rows"), ("rows:2,cols:4", "y:rows,z:cols")]:
        program = mi.Program(
            lambda image, kernel: mi.ops.conv3d(image, kernel, dilations=(1, 1, 2)), inputs, mesh, layout
        )
        counts.add(int((~np.isfinite(program(image=image, kernel=kernel))).sum()))
    assert counts == {27}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("kernel", [(1, 3, 1), (1, 1, 2), (2, 1, 1), (1, 1), (1,)])
def test_the_dilation_of_a_single_tap_has_no_effect(kernel, dtype):
    """TensorFlow refuses such a dilation in float64, although it has no effect."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal([2, *[6] * len(kernel), 3]), dtype)
    f = tf.constant(rng.standard_normal([*kernel, 3, 4]), dtype)
    ones, dilations = [1] * len(kernel), [2 if taps == 1 else 1 for taps in kernel]

    @tf.function
    def both(dilations):
        y = local_conv.conv(x, f, ones, "VALID", dilations)
        dx = local_conv.conv_input_grad(x.shape, f, y, ones, "VALID", dilations)
        return y, dx, local_conv.conv_filter_grad(x, f.shape, y, ones, "VALID", dilations)

    for dilated, plain in zip(both(dilations), both(ones), strict=True):
        np.testing.assert_allclose(dilated, plain, rtol=1e-5, atol=1e-5)
