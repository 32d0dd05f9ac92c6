"""Random windows, drawn by Hypothesis: values and gradients equal TensorFlow's on the whole tensor."""

import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from mtf_imaging.layout.windows import Window, check_split
from tests.harness import Case, check
from tests.ops import resizing


@st.composite
def splits(draw, max_dilation=1):
    """Draws (window, size, parts) of a legal split."""
    window = Window(
        draw(st.integers(1, 6)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, max_dilation)),
        draw(st.sampled_from(["SAME", "VALID"])),
    )
    parts, share = draw(st.sampled_from([2, 2, 3, 4])), draw(st.integers(1, 6))
    assume(window.output_size(parts * share) and not check_split(window, parts * share, parts))
    return window, parts * share, parts


@pytest.mark.slow
@settings(max_examples=60)
@given(splits(max_dilation=3), st.sampled_from(["stacked", "placement"]))
def test_convolutions(split, mesh_impl):
    window, size, parts = split
    steps = (window.stride, 1, 1)
    case = Case(
        f"conv {window} {size}",
        lambda x, f: mi.ops.conv3d(x, f, steps, window.padding, (window.dilation, 1, 1)),
        # tf.nn.convolution does not support strides with dilations.
        lambda x, f: _strided(x, f, window),
        {"x": f"batch:1,x:{size},y:3,z:2,channels:2", "f": f"fx:{window.kernel},fy:1,fz:1,channels:2,filters:2"},
    )
    check(case, "float32", f"rows:{parts}", "x:rows", mesh_impl)


def _strided(x, f, window):
    """Computes the windows of stride 1 and keeps every `stride`-th one."""
    before, after = window.pads(x.shape[1])
    x = tf.pad(x, [[0, 0], [before, after], [0, 0], [0, 0], [0, 0]])
    return tf.nn.convolution(x, f, 1, "VALID", dilations=(window.dilation, 1, 1))[:, :: window.stride]


@pytest.mark.slow
@settings(max_examples=40)
@given(splits(), st.sampled_from(["max", "avg"]), st.sampled_from(["stacked", "placement"]))
def test_pools(split, kind, mesh_impl):
    window, size, parts = split
    op = {"max": mi.ops.max_pool3d, "avg": mi.ops.avg_pool3d}[kind]
    tf_op = {"max": tf.nn.max_pool3d, "avg": tf.nn.avg_pool3d}[kind]
    args = (window.kernel, 1, 1), (window.stride, 1, 1), window.padding
    case = Case(
        f"{kind} pool {window} {size}",
        lambda x: op(x, *args),
        lambda x: tf_op(x, *args),
        {"x": f"batch:1,x:{size},y:3,z:2,channels:2"},
    )
    check(case, "float32", f"rows:{parts}", "x:rows", mesh_impl)


@pytest.mark.slow
@settings(max_examples=40)
@given(splits(), st.sampled_from(["stacked", "placement"]))
def test_transposed_convolutions(split, mesh_impl):
    window, size, parts = split
    inputs = window.output_size(size)
    case = Case(
        f"transposed {window} {size}",
        lambda x, f: mi.ops.conv3d_transpose(x, f, (window.stride, 1, 1), window.padding, (size, 3, 2)),
        lambda x, f: tf.nn.conv3d_transpose(x, f, [1, size, 3, 2, 2], (window.stride, 1, 1), window.padding),
        {"x": f"batch:1,x:{inputs},y:3,z:2,channels:2", "f": f"fx:{window.kernel},fy:1,fz:1,filters:2,channels:2"},
    )
    check(case, "float32", f"rows:{parts}", "x:rows", mesh_impl)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 2, 3, 4])),
    st.tuples(st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 2])),
    st.sampled_from(["linear", "nearest"]),
    st.sampled_from(["stacked", "placement"]),
)
def test_resizes(x, y, method, mesh_impl):
    (n, o, rows), (m, p, cols) = x, y
    sizes = (o * rows, p * cols, 3)
    case = Case(
        f"resize {x} {y} {method}",
        lambda x: mi.ops.resize3d(x, sizes, method),
        lambda x: resizing.resize(x, sizes, method),
        {"x": f"batch:1,x:{n * rows},y:{m * cols},z:2,channels:2"},
    )
    check(case, "float64", f"rows:{rows},cols:{cols}", "x:rows,y:cols", mesh_impl)
