"""Padding, and resizing with aligned corners: values and gradients equal TensorFlow's on the whole tensor."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.harness import Case, assert_all_pairs, check, pairwise
from tests.engine.ops import resizing
from tests.engine.ops.test_ops_equal_whole import CPUS, IMPLS, LAYOUTS, NUM_DEVICES, UNEVEN, product

SIZES = {"x": 12, "y": 8, "z": 6}
FAST = [("rows:2,cols:2", "x:rows,y:cols"), ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"), UNEVEN[0]]


def _image(dims):
    return ",".join(["batch:2", *(f"{name}:{size}" for name, size in list(SIZES.items())[:dims]), "channels:4"])


def pad(paddings, mode):
    return Case(
        f"pad {paddings} {mode}",
        lambda x: mi.ops.pad(x, paddings, mode),
        lambda x: resizing.pad(x, paddings, mode),
        {"x": _image(len(paddings))},
    )


def resize(sizes, method):
    dims = len(sizes)
    return Case(
        f"resize{dims}d {sizes} {method}, corners aligned",
        lambda x: getattr(mi.ops, f"resize{dims}d")(x, sizes, method, align_corners=True),
        lambda x: resizing.resize(x, sizes, method, align_corners=True),
        {"x": _image(dims)},
    )


def _tf_resize2d(sizes, method):
    op = {"linear": tf.compat.v1.image.resize_bilinear, "nearest": tf.compat.v1.image.resize_nearest_neighbor}[method]
    return Case(
        f"resize2d {sizes} {method} of TensorFlow, corners aligned",
        lambda x: mi.ops.resize2d(x, sizes, method, align_corners=True),
        lambda x: op(x, sizes, align_corners=True),
        {"x": _image(2)},
    )


CASES = [
    pad([(0, 4), (1, 1), (2, 0)], "constant"),
    pad([(3, 1), (2, 6), (0, 2)], "reflect"),
    pad([(12, 0), (4, 8)], "symmetric"),
    resize((24, 4, 12), "linear"),
    resize((6, 20, 2), "nearest"),
    _tf_resize2d((18, 4), "linear"),
    _tf_resize2d((36, 14), "nearest"),
]
BROAD = [
    pad([(24, 12), (8, 0), (0, 6)], "constant"),
    pad([(11, 1), (7, 1), (5, 5)], "reflect"),
    pad([(0, 12), (8, 8), (6, 6)], "symmetric"),
    pad([(5, 7)], "reflect"),
    pad([(0, 0), (3, 5)], "symmetric"),
    resize((6, 4, 3), "linear"),
    resize((36, 8, 4), "linear"),
    resize((2, 2, 2), "linear"),
    resize((1, 1, 6), "linear"),
    resize((48, 16, 12), "nearest"),
    _tf_resize2d((6, 4), "linear"),
    _tf_resize2d((2, 12), "nearest"),
]


ALL_LAYOUTS = LAYOUTS + UNEVEN
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


@pytest.mark.parametrize(("case", "mesh", "layout", "impl"), _table())
def test_equals_the_whole(case, mesh, layout, impl):
    check(case, "float32", mesh, layout, impl, CPUS[: NUM_DEVICES.get(mesh, 2)])


@pytest.mark.parametrize("impl", [IMPLS[0], pytest.param(IMPLS[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("case", [*CASES[:5], CASES[6]], ids=str)
def test_other_dtypes(case, dtype, impl):
    check(case, dtype, "rows:5,cols:3", "x:rows,y:cols", impl)


SHAPE = "batch:1,x:4,y:6,channels:2"


@pytest.mark.parametrize("mode", ["constant", "reflect", "symmetric"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_labels_can_be_padded(dtype, mode):
    labels = (np.arange(4 * 6 * 2).reshape(1, 4, 6, 2) % 3).astype(dtype)
    program = mi.Program(
        lambda x: mi.ops.pad(x, [(1, 3), (2, 0)], mode), {"x": (SHAPE, dtype)}, "rows:2,cols:2", "x:rows,y:cols"
    )
    got = program(x=labels)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.pad(labels, [(0, 0), (1, 3), (2, 0), (0, 0)], mode))


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_nan_affects_only_the_voxels_that_read_it(mode):
    """This holds for the values and for the gradients."""

    def fn(x, dy):
        y = mi.ops.pad(x, [(2, 2), (3, 1)], mode)
        return y, mi.mtf.gradients([mi.mtf.reduce_sum(y * dy)], [x])[0]

    x, dy = np.ones((1, 4, 6, 1)), np.ones((1, 8, 10, 1))
    x[0, 0, 0] = dy[0, 0, 0] = np.nan
    inputs = {"x": ("batch:1,x:4,y:6,channels:1", "float64"), "dy": ("batch:1,x:8,y:10,channels:1", "float64")}
    y, dx = mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols")(x=x, dy=dy)
    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (2, 2), (3, 1), (0, 0)], mode))
    bad = [] if mode == "constant" else [[0, 2, 3, 0]]
    assert np.argwhere(np.isnan(dx)).tolist() == bad


def test_no_padding_returns_the_tensor():
    def fn(x):
        assert mi.ops.pad(x, [(0, 0), (0, 0)]) is x
        return x

    mi.Program(fn, {"x": SHAPE})


def test_slices_that_do_not_move_exchange_nothing():
    program = mi.Program(
        lambda x: mi.ops.pad(x, [(3, 3)], "reflect"), {"x": "batch:1,x:12,channels:2"}, "rows:2", "x:rows"
    )
    assert program.mesh_impl.exchanged == []


@pytest.mark.parametrize(
    ("paddings", "mode", "message"),
    [
        (1, "constant", r"pad 'pad': paddings must be a pair \(before, after\) of ints from 0 .*, not 1\. Fix: use "),
        ([(1, 1), (1,)], "constant", r"not \[\(1, 1\), \(1,\)\]\. Fix: use paddings such as"),
        ([(1, 1), (-1, 0)], "constant", r"not \[\(1, 1\), \(-1, 0\)\]\."),
        ([(1, 1.0)], "constant", r"not \[\(1, 1\.0\)\]\."),
        ([(1, 1)] * 4, "constant", "for each of 1, 2 or 3 spatial dimensions, not "),
        ([(1, 1)] * 3, "constant", "pad 'pad' needs at least 5 dimensions .*, but its input has 4: "),
        ([(1, 1)] * 2, "edge", "mode must be 'constant', 'reflect' or 'symmetric', not 'edge'"),
        ([(1, 1), (0, 6)], "reflect", r"'y' \(size 6\) by at most 5 voxels .* its padding is \(0, 6\)\. Fix: use a sm"),
        ([(5, 1), (0, 6)], "symmetric", r"'x' \(size 4\) by at most 4 voxels .* its padding is \(5, 1\)\. Fix: use a "),
    ],
)
def test_wrong_calls(paddings, mode, message):
    with pytest.raises(mi.ShapeError, match=message):
        mi.Program(lambda x: mi.ops.pad(x, paddings, mode), {"x": SHAPE})
