"""Convolutions, pools and resizes of one dimension: values and gradients equal TensorFlow's on the whole tensor."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout.windows import Window
from tests.engine.harness import Case, assert_all_pairs, check, pairwise
from tests.engine.ops import resizing
from tests.engine.ops.test_ops_equal_whole import CPUS, LAYOUTS, UNEVEN, product

SIZE = 12
X = f"batch:2,x:{SIZE},channels:4"
FAST = [
    ("rows:3,cores:2", "x:rows,batch:cores"),
    ("model:2,rows:2,filter_model:2", "x:rows,channels:model"),
    ("rows:5", "x:rows"),
]


def conv(kernel, strides=1, padding="SAME", dilations=1):
    return Case(
        f"conv1d {kernel}, {strides}, {padding}, {dilations}",
        lambda x, f: mi.ops.conv1d(x, f, strides, padding, dilations),
        # tf.nn.convolution does not support strides with dilations, and its SAME is wrong for strides above the kernel.
        lambda x, f: (
            tf.nn.convolution(x, f, 1, padding, dilations=dilations)
            if strides == 1
            else tf.nn.conv1d(x, f, strides, "VALID" if strides > kernel else padding)
        ),
        {"x": X, "f": f"fx:{kernel},channels:4,filters:2"},
    )


def conv_transpose(kernel, strides, padding="SAME", output_size=None):
    size = output_size or Window(kernel, strides, 1, padding).transposed_size(SIZE)
    return Case(
        f"conv1d_transpose {kernel}, {strides}, {padding}, {size}",
        lambda x, f: mi.ops.conv1d_transpose(x, f, strides, padding, output_size),
        lambda x, f: tf.nn.conv1d_transpose(x, f, [2, size, 2], strides, padding),
        {"x": X, "f": f"fx:{kernel},filters:2,channels:4"},
    )


def pool(kind, ksize, strides, padding="VALID", values=None):
    return Case(
        f"{kind}_pool1d {ksize}, {strides}, {padding}, {values}",
        lambda x: getattr(mi.ops, f"{kind}_pool1d")(x, ksize, strides, padding),
        lambda x: getattr(tf.nn, f"{kind}_pool1d")(x, ksize, strides, padding),
        {"x": X},
        {"x": values} if values else {},
    )


def resize(size, method, align_corners=False):
    return Case(
        f"resize1d {size}, {method}, {align_corners}",
        lambda x: mi.ops.resize1d(x, size, method, align_corners),
        lambda x: resizing.resize(x, [size], method, align_corners),
        {"x": X},
    )


CASES = [
    conv(3),
    conv(2, 2),
    conv(3, dilations=2),
    conv_transpose(3, 2),
    pool("max", 3, 2, "SAME"),
    pool("avg", 3, 1, "SAME"),
    resize(18, "linear"),
]
BROAD = [
    conv(1),
    conv(1, 2),
    conv(7),
    conv(4, 3),
    conv(2, 4),
    conv(7, 1, "VALID"),
    conv(2, 2, "VALID"),
    conv(4, 1, "VALID", 2),
    conv_transpose(2, 2),
    conv_transpose(1, 2),
    conv_transpose(4, 2, "VALID", 26),
    conv_transpose(5, 1),
    pool("max", 2, 2),
    pool("max", 2, 2, values=2),
    pool("max", 4, 1, "SAME", values=3),
    pool("avg", 2, 2),
    pool("avg", 5, 3, "SAME"),
    resize(6, "nearest"),
    resize(36, "nearest", align_corners=True),
    resize(6, "linear", align_corners=True),
]


ALL_LAYOUTS = [*LAYOUTS, *UNEVEN, FAST[1]]
FEW_ROWS, BROAD_ROWS = product(CASES, ALL_LAYOUTS), product(BROAD, ALL_LAYOUTS)


def _kinds(row):
    case, *others = row
    return case.kind, *others


def _on_a_mesh(row):
    case, _, impl = row
    return case, impl


# Every kind of operation under every layout, and every case on every mesh implementation.
BROAD_PART = pairwise(BROAD_ROWS, _kinds)
BROAD_PART += [row for row in pairwise(BROAD_ROWS, _on_a_mesh) if row not in BROAD_PART]


def _table():
    return [
        pytest.param(
            case,
            mesh,
            layout,
            impl,
            id=f"{case.name}-{mesh}-{layout}-{impl}",
            marks=[] if case in CASES and (mesh, layout) in FAST else [pytest.mark.slow],
        )
        for case, (mesh, layout), impl in [*pairwise(FEW_ROWS), *BROAD_PART]
    ]


def test_all_pairs_of_an_operation_a_layout_and_a_mesh_implementation_occur():
    rows = [(case, (mesh, layout), impl) for case, mesh, layout, impl in (row.values for row in _table())]
    assert_all_pairs(rows, FEW_ROWS)
    assert_all_pairs(rows, BROAD_ROWS, _kinds)
    assert_all_pairs(rows, BROAD_ROWS, _on_a_mesh)
    assert {case.name for case, (_, layout), _ in rows if layout} == {case.name for case in CASES + BROAD}


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize(("case", "mesh", "layout", "impl"), _table())
def test_equals_the_whole(case, mesh, layout, impl):
    check(case, "float32", mesh, layout, impl, CPUS[: 5 if mesh == "rows:5" else 4])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES + BROAD, ids=str)
def test_float64(case):
    mesh, layout = next(pair for pair in [UNEVEN[1], *LAYOUTS[1:]] if case.allows(pair[1]))
    check(case, "float64", mesh, layout, "stacked")


@pytest.mark.parametrize("case", [CASES[0], CASES[3], *CASES[4:]], ids=str)
def test_bfloat16(case):
    check(case, "bfloat16", "rows:2", "x:rows", "stacked")


def test_messages_name_the_operation():
    inputs = {"x": X, "f": "fx:3,channels:4,filters:2"}
    with pytest.raises(
        mi.ShapeError, match=r"max_pool1d 'max_pool1d': strides must be an int or 1 of them, not \(1, 1"
    ):
        mi.Program(lambda x, f: mi.ops.max_pool1d(x, 2, (1, 1)), inputs)
    with pytest.raises(mi.ShapeError, match="conv1d_transpose 'up': the filter must have 3 dimensions, but it has 2: "):
        mi.Program(
            lambda x, f: mi.ops.conv1d_transpose(x, mi.mtf.reduce_sum(f, reduced_dim=f.shape.dims[0]), 2, name="up"),
            inputs,
        )


def test_several_batch_dimensions():
    x, f = np.random.default_rng(0).standard_normal((2, 3, 8, 2)), np.ones((3, 2, 2))
    inputs = {"x": ("batch:2,y:3,x:8,channels:2", "float64"), "f": ("fx:3,channels:2,filters:2", "float64")}
    program = mi.Program(lambda x, f: mi.ops.conv1d(x, f), inputs, "rows:2,cols:3", "x:rows,y:cols")
    np.testing.assert_allclose(program(x=x, f=f), tf.nn.conv1d(x, f, 1, "SAME"), rtol=1e-12)
