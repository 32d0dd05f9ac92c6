"""Graphs, messages and default sizes of explicit padding. The cases in `padded.py` compare values and gradients."""

import numpy as np
import pytest

import mtf_imaging as mi

mtf = mi.mtf

INPUTS = {"x": "batch:2,x:12,y:8,z:6,channels:4", "f": "fx:3,fy:3,fz:3,channels:4,filters:4"}


def _transpose(x, f, *args, **settings):
    return mi.ops.conv3d_transpose(mtf.rename_dimension(x, "channels", "filters"), f, *args, **settings)


def _graph(fn, mesh_shape, layout, mesh_impl):
    """Returns the nodes of a program that computes an operation and its gradients."""

    def step(x, f):
        y = fn(x, f)
        return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y) * mtf.reduce_sum(f))], [x, f])

    nodes = mi.Program(step, INPUTS, mesh_shape, layout, mesh_impl).function.graph.as_graph_def().node
    return [(n.name, n.op, list(n.input), {name: str(value) for name, value in n.attr.items()}) for n in nodes]


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize(
    ("fn", "name", "pairs"),
    [
        (lambda x, f, p: mi.ops.conv3d(x, f, 1, p), "SAME", [(1, 1)] * 3),
        (lambda x, f, p: mi.ops.conv3d(x, f, 2, p), "SAME", [(0, 1)] * 3),
        (lambda x, f, p: mi.ops.conv3d(x, f, (2, 1, 1), p, (1, 2, 1)), "SAME", [(0, 2), (2, 2), (1, 1)]),
        (lambda x, f, p: mi.ops.conv3d(x, f, 1, p), "VALID", [(0, 0)] * 3),
        (lambda x, f, p: _transpose(x, f, 2, p, (24, 16, 12)), "SAME", [(0, 1)] * 3),
        (lambda x, f, p: mi.ops.max_pool3d(x, 3, 1, p), "SAME", [(1, 1)] * 3),
        (lambda x, f, p: mi.ops.max_pool3d(x, 2, 2, p), "VALID", [(0, 0)] * 3),
        (lambda x, f, p: mi.ops.avg_pool3d(x, (3, 2, 1), 1, p), "SAME", [(1, 1), (0, 1), (0, 0)]),
    ],
)
@pytest.mark.parametrize(("mesh_shape", "layout"), [("", ""), ("rows:2,cols:2", "x:rows,y:cols")])
@pytest.mark.parametrize("mesh_impl", ["stacked", pytest.param("placement", marks=pytest.mark.slow)])
def test_padding_that_equals_a_padding_of_tensorflow_has_the_same_graph(fn, name, pairs, mesh_shape, layout, mesh_impl):
    named = _graph(lambda x, f: fn(x, f, name), mesh_shape, layout, mesh_impl)
    assert _graph(lambda x, f: fn(x, f, pairs), mesh_shape, layout, mesh_impl) == named


def _error(fn, mesh_shape="", layout=""):
    with pytest.raises((mi.ShapeError, mi.LayoutError)) as error:
        mi.Program(fn, INPUTS, mesh_shape, layout)
    return str(error.value)


WRONG = "padding must be 'SAME', 'VALID' or 3 pairs (before, after), one for each spatial dimension, not "


@pytest.mark.parametrize(
    "padding", ["FULL", 1, None, (1, 1), (1, 1, 1), [(1, 1)], [(1, 1)] * 2, ["SAME"] * 3, np.ones([3, 2])], ids=str
)
def test_padding_that_is_not_a_pair_for_each_dimension(padding):
    for name, fn in (
        ("conv3d", lambda x, f: mi.ops.conv3d(x, f, 1, padding)),
        ("conv3d_transpose", lambda x, f: _transpose(x, f, 1, padding)),
        ("max_pool3d", lambda x, f: mi.ops.max_pool3d(x, 3, 1, padding)),
        ("avg_pool3d", lambda x, f: mi.ops.avg_pool3d(x, 3, 1, padding)),
    ):
        fix = "Fix: use one of these names, or pairs such as [(1, 1), (1, 1), (1, 1)]."
        assert _error(fn) == f"{name} '{name}': {WRONG}{padding!r}. {fix}"


@pytest.mark.parametrize("pair", [(1, True), (1, 0.5), (1,), (1, 1, 1), ("SAME", 1)])
def test_pairs_that_are_not_ints(pair):
    text = _error(lambda x, f: mi.ops.conv3d(x, f, 1, [(1, 1), pair, (1, 1)]))
    assert text == f"conv3d 'conv3d': padding must be 'SAME', 'VALID' or a pair of ints, not {pair!r}"


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            lambda x, f: mi.ops.conv3d(x, f, 1, [(1, 1), (1, 1), (-3, -1)]),
            "conv3d 'conv3d': a window of 3 voxels does not fit 'z' (size 6) with padding (-3, -1). "
            "Fix: make 'z' at least 7, or use padding 'SAME'.",
        ),
        (
            lambda x, f: mi.ops.conv3d(x, f, 1, [(1, 1), (1, 1), (-6, 9)]),
            "conv3d 'conv3d': a window of 3 voxels does not fit 'z' (size 6) with padding (-6, 9). "
            "Fix: make 'z' at least 7, or use padding 'SAME'.",
        ),
        (
            lambda x, f: mi.ops.max_pool3d(x, 2, 2, [(1, 1), (0, 2), (0, 0)]),
            "max_pool3d 'max_pool3d': with padding (0, 2), a window of 2 voxels at the border of 'y' (size 8) contains "
            "no voxel. Fix: use a padding of at most 1.",
        ),
        (
            lambda x, f: mi.ops.avg_pool3d(x, 3, 1, [(1, 1), (1, 1), (3, -1)], name="mean"),
            "avg_pool3d 'mean': with padding (3, -1), a window of 3 voxels at the border of 'z' (size 6) contains no "
            "voxel. Fix: use a padding of at most 2.",
        ),
        (
            lambda x, f: _transpose(x, f, 1, [(1, 1), (1, 1), (5, 3)]),
            "conv3d_transpose 'conv3d_transpose': padding (5, 3) leaves no voxel of the output 'z', which has 6 "
            "windows of 3 voxels. Fix: use less padding.",
        ),
        (
            lambda x, f: _transpose(x, f, 1, [(1, 1), (1, 1), (-2, 9)]),
            "conv3d_transpose 'conv3d_transpose': padding (-2, 9) leaves no voxel of the output 'z', which has 6 "
            "windows of 3 voxels. Fix: use less padding.",
        ),
    ],
)
def test_padding_that_does_not_fit(fn, message):
    assert _error(fn) == message


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"strides": 2, "padding": [(1, 1), (1, 0), (-1, -2)]}, [23, 16, 16]),
        ({"strides": 1, "padding": [(1, 1)] * 3, "dilations": (1, 2, 3)}, [12, 10, 10]),
        ({"strides": (1, 2, 3), "padding": "VALID", "dilations": 2}, [16, 19, 20]),
        ({"strides": 2, "padding": "SAME", "dilations": 3}, [24, 16, 12]),
    ],
)
def test_default_sizes_of_transposed_convolutions(settings, sizes):
    shapes = []

    def fn(x, f):
        y = _transpose(x, f, **settings)
        shapes.append([dim.size for dim in y.shape.dims[1:4]])
        return y

    mi.Program(fn, INPUTS)
    assert shapes[0] == sizes


@pytest.mark.parametrize("padding", [[(1, 1), (0, 2), (2, 0)], ((1, 1), (0, 2), (2, 0)), [[1, 1], [0, 2], [2, 0]]])
def test_pairs_may_be_lists_or_tuples(padding):
    mi.Program(lambda x, f: mi.ops.conv3d(x, f, 1, padding), INPUTS)
