"""Small shapes for which TensorFlow's kernels are wrong, and a scan of random shapes."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.ops.conv import grouped
from tests.engine.ops import kernel_scan
from tests.engine.ops.kernel_scan import Shapes

mtf = mi.mtf
# For most of these, kernels (oneDNN, TensorFlow 2.21) read other memory than their input.
SHAPES = [
    Shapes("conv", "float32", 2, (14, 11, 3), (5, 3, 2), (1, 1, 2), (1, 1, 1), "VALID", 1, 1),
    Shapes("conv", "float32", 2, (3, 2), (3, 3), (1, 3), (1, 1), "SAME", 1, 2),
    Shapes("conv", "float32", 1, (6, 5), (2, 2), (2, 3), (1, 2), "VALID", 1, 3),
    Shapes("conv", "bfloat16", 2, (5, 4), (1, 3), (2, 3), (1, 1), "VALID", 1, 4),
    Shapes("conv", "float16", 2, (4, 5, 1), (3, 2, 3), (1, 1, 3), (1, 1, 1), "SAME", 1, 3),
    Shapes("conv", "bfloat16", 2, (1,), (3,), (2,), (1,), "SAME", 2, 3),
    Shapes("conv", "bfloat16", 1, (5, 1, 1), (1, 3, 1), (1, 2, 1), (2, 1, 2), "SAME", 2, 2),
    Shapes("grouped", "bfloat16", 1, (3, 1), (2, 3), (1, 2), (1, 1), "SAME", 4, 4),
    Shapes("depthwise", "float32", 1, (4, 3), (2, 2), (2, 2), (1, 1), "VALID", 2, 4),
    Shapes("conv", "float32", 1, (5, 1), (2, 3), (2, 3), (1, 1), "SAME", 3, 2),
    Shapes("conv", "bfloat16", 2, (2, 4, 3), (3, 3, 3), (1, 1, 1), (1, 1, 1), "SAME", 2, 1),
    # Taps that read padding only.
    Shapes("conv", "bfloat16", 2, (1, 5, 1), (3, 3, 2), (1, 1, 1), (1, 1, 1), "SAME", 1, 2),
    Shapes("conv", "bfloat16", 1, (1, 6, 4), (3, 1, 2), (1, 1, 2), (1, 1, 1), "SAME", 1, 3),
]


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_kernels_read_their_input_alone(case):
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert max(kernel_scan.errors(case, rng).values()) <= kernel_scan.TOLERANCE


@pytest.mark.slow
def test_kernels_of_random_shapes():
    assert list(kernel_scan.scan(6000)) == []


def _strides(fn):
    """Returns the strides of the convolutions in the graph of a function."""
    graph = tf.function(fn, autograph=False).get_concrete_function().graph
    return [tuple(op.get_attr("strides")[1:-1]) for op in graph.get_operations() if "Conv" in op.type], graph


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_only_single_windows_are_cut(padding):
    """Along the first dimension there are two windows, along the second one a single window."""
    f = tf.ones([2, 3, 1, 1])

    def kernels(width):
        x, dy = tf.ones([1, 4, width, 1]), tf.ones([1, 2, 1 if width == 3 else 2, 1])
        args = [2, 3], padding, [1, 1]
        return (
            lambda: grouped.conv(x, f, *args),
            lambda: grouped.conv_input_grad(x.shape, f, dy, *args),
            lambda: grouped.conv_filter_grad(x, f.shape, dy, *args),
        )

    for fn in kernels(3):
        assert _strides(fn)[0] == [(2, 1)]
    for fn in kernels(6):
        strides, graph = _strides(fn)
        assert strides == [(2, 3)]
        assert not {op.type for op in graph.get_operations()} & {"Slice", "Pad", "PadV2"}


def test_a_slice_of_a_thin_image_has_a_single_window():
    """Compares float32 with float64, because TensorFlow is as wrong on the whole image."""
    x = np.random.default_rng(0).standard_normal((2, 14, 11, 3, 1))
    f = np.random.default_rng(1).standard_normal((5, 3, 2, 1, 1))

    def step(x, f):
        y = mi.ops.conv3d(x, f, (1, 1, 2), "VALID")
        return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x, f])

    shapes = {"x": "b:2,x:14,y:11,z:3,c:1", "f": "fx:5,fy:3,fz:2,c:1,o:1"}
    exact = mi.Program(step, {name: (shape, "float64") for name, shape in shapes.items()})(x=x, f=f)
    for result, expected in zip(mi.Program(step, shapes, "m:2", "x:m")(x=x, f=f), exact, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
