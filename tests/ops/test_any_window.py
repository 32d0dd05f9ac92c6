"""Random windows, drawn by Hypothesis: values and gradients equal TensorFlow's on the whole tensor."""

import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from mtf_imaging.layout.windows import Window, check_split
from tests.harness import Case, check
from tests.ops import padded, resizing


@st.composite
def splits(draw, max_dilation=1, max_padding=8):
    """Draws (window, size, parts) of a legal split."""
    pads = st.integers(-3, max_padding)
    window = Window(
        draw(st.integers(1, 6)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, max_dilation)),
        draw(st.sampled_from(["SAME", "VALID"]) | st.tuples(pads, pads)),
    )
    parts, share = draw(st.sampled_from([2, 2, 3, 4])), draw(st.integers(1, 6))
    assume(window.output_size(parts * share) and not check_split(window, parts * share, parts))
    return window, parts * share, parts


def _argument(window):
    """Returns the argument `padding` of a window along x; the windows along y and z are single voxels."""
    return window.padding if isinstance(window.padding, str) else [window.padding, (0, 0), (0, 0)]


def _pads(window, size):
    """Returns the padding of each dimension."""
    along_x = window.pads(size) if isinstance(window.padding, str) else window.padding
    return [along_x, (0, 0), (0, 0)]


@pytest.mark.slow
@settings(max_examples=60)
@given(splits(max_dilation=3), st.sampled_from(["stacked", "placement"]))
def test_convolutions(split, mesh_impl):
    window, size, parts = split
    steps = (window.stride, 1, 1)
    case = Case(
        f"conv {window} {size}",
        lambda x, f: mi.ops.conv3d(x, f, steps, _argument(window), (window.dilation, 1, 1)),
        # tf.nn.convolution does not support strides with dilations.
        lambda x, f: _strided(x, f, window),
        {"x": f"batch:1,x:{size},y:3,z:2,channels:2", "f": f"fx:{window.kernel},fy:1,fz:1,channels:2,filters:2"},
    )
    check(case, "float32", f"rows:{parts}", "x:rows", mesh_impl)


def _strided(x, f, window):
    """Computes the windows of stride 1 and keeps every `stride`-th one."""
    x = padded.pad(x, _pads(window, x.shape[1]))
    return tf.nn.convolution(x, f, 1, "VALID", dilations=(window.dilation, 1, 1))[:, :: window.stride]


@pytest.mark.slow
@settings(max_examples=40)
@given(splits(max_padding=3), st.sampled_from(["max", "avg"]), st.sampled_from(["stacked", "placement"]))
def test_pools(split, kind, mesh_impl):
    window, size, parts = split
    assume(max(window.explicit) < window.extent)
    op = f"{kind}_pool3d"
    args = (window.kernel, 1, 1), (window.stride, 1, 1)

    def reference(x):
        if isinstance(window.padding, str):
            return getattr(tf.nn, op)(x, *args, window.padding)
        return padded.pooled(op, x, *args, _pads(window, size))

    case = Case(
        f"{kind} pool {window} {size}",
        lambda x: getattr(mi.ops, op)(x, *args, _argument(window)),
        reference,
        {"x": f"batch:1,x:{size},y:3,z:2,channels:2"},
    )
    check(case, "float32", f"rows:{parts}", "x:rows", mesh_impl)


@pytest.mark.slow
@settings(max_examples=40)
@given(splits(max_dilation=3), st.sampled_from(["stacked", "placement"]))
def test_transposed_convolutions(split, mesh_impl):
    window, size, parts = split
    inputs, strides, dilations = window.output_size(size), (window.stride, 1, 1), (window.dilation, 1, 1)
    pads = _pads(window, size)

    def reference(x, f):
        y = tf.nn.conv3d_transpose(x, padded.dilate(f, dilations), [1, size + sum(pads[0]), 3, 2, 2], strides, "VALID")
        return padded.pad(y, [(-before, -after) for before, after in pads])

    case = Case(
        f"transposed {window} {size}",
        lambda x, f: mi.ops.conv3d_transpose(x, f, strides, _argument(window), (size, 3, 2), dilations),
        reference,
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
