"""The highest scores under all layouts equal those of `tf.math.top_k` on the flattened tensor, and so do their rows."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from mtf_imaging.engine.meshes.exchange import Exchange
from tests.engine.exchanges import check_exchanges
from tests.engine.harness import pairwise

mtf = mi.mtf
SIZES = {"batch": 3, "x": 7, "y": 5, "anchors": 2}
DTYPES = {"scores": "float64", "boxes": "float32", "along": "float64", "number": "int32"}
LAYOUTS = [
    ("", ""),
    ("rows:2", "x:rows"),
    ("rows:2,cols:2", "x:rows,y:cols"),
    ("rows:5,cols:4", "x:rows,y:cols"),  # the last slices are shorter or empty
    ("cores:2,cols:3", "batch:cores,y:cols"),
    ("rows:4,model:3", "y:rows,anchors:model"),
    ("rows:3,cols:2", "x:rows,top:cols"),
    ("spare:2,rows:3", "x:rows,top:rows"),
]
KINDS = ("distinct", "ties", "infinite")


def specs(sizes, dtype="float64"):
    """Returns the inputs of a `Program`: scores, and rows with all or some of their dimensions."""

    def shape(*names):
        return ",".join(f"{name}:{sizes[name]}" for name in names)

    shapes = {"scores": shape(*sizes), "boxes": f"{shape(*sizes)},coords:4", "along": shape("y", "anchors")}
    dtypes = {**DTYPES, "scores": dtype}
    return {key: (value, dtypes[key]) for key, value in {**shapes, "number": shape("x")}.items()}


def values(kind, sizes, seed=0):
    """Returns inputs whose scores are distinct, often equal, or often infinite."""
    rng, shape = np.random.default_rng(seed), list(sizes.values())
    scores = rng.permutation(np.prod(shape)).reshape(shape) - 100.0
    if kind == "ties":
        scores = rng.choice([-1.0, -0.0, 0.0, 1.0], shape)
    elif kind == "infinite":
        scores = rng.choice([np.inf, -np.inf, -np.inf, -np.inf, np.finfo(np.float32).min], shape)
    return {
        "scores": scores,
        "boxes": rng.standard_normal([*shape, 4]).astype(np.float32),
        "along": rng.standard_normal([sizes["y"], sizes["anchors"]]),
        "number": np.arange(sizes["x"], dtype=np.int32),
    }


def reference(k, scores, boxes, along, number):
    batch, *rest = scores.shape
    best, index = (x.numpy() for x in tf.math.top_k(scores.reshape(batch, -1), min(k, np.prod(rest))))
    boxes = np.take_along_axis(boxes.reshape(batch, -1, 4), index[..., np.newaxis], 1)
    along = np.broadcast_to(along, rest).ravel()[index]
    return best, boxes, along, np.broadcast_to(number[:, np.newaxis, np.newaxis], rest).ravel()[index]


def choose(k, scores, boxes, along, number):
    best, rows = mi.ops.top_k(scores, [boxes, along, number], k)
    return best, *rows


def results(k, mesh, layout, impl, sizes=SIZES, kinds=KINDS):
    """Returns the results of a program for each kind of scores, after comparing its exchanges with the planner's."""
    fn, inputs = functools.partial(choose, k), specs(sizes)
    program = mi.Program(fn, inputs, mesh, layout, impl)
    check_exchanges(program, fn, inputs)
    return [[x.numpy() for x in program(**values(kind, sizes))] for kind in kinds]


def assert_equal_reference(k, computed, sizes=SIZES, kinds=KINDS):
    for kind, tensors in zip(kinds, computed, strict=True):
        for value, wanted in zip(tensors, reference(k, **values(kind, sizes)), strict=True):
            np.testing.assert_array_equal(value, wanted, err_msg=kind)


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize(
    ("split", "k", "impl"), pairwise(itertools.product(LAYOUTS, [1, 9, 100], ["stacked", "placement"])), ids=str
)
def test_equals_the_whole(split, k, impl):
    assert_equal_reference(k, results(k, *split, impl))


@pytest.mark.slow
@settings(max_examples=8)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)),
    st.tuples(*[st.integers(1, 4)] * 3),
    st.sampled_from(["x:a,y:b,batch:c", "y:a,anchors:b", "x:b,y:a,anchors:c", "anchors:a,x:c,top:b"]),
    st.integers(1, 40),
)
def test_any_size(sizes, mesh, layout, k):
    sizes = dict(zip(SIZES, sizes, strict=True))
    mesh = ",".join(f"{name}:{n}" for name, n in zip("abc", mesh, strict=True))
    assert_equal_reference(k, results(k, mesh, layout, "stacked", sizes), sizes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes(dtype):
    program = mi.Program(functools.partial(choose, 6), specs(SIZES, dtype), "rows:3,cols:2", "x:rows,y:cols")
    for kind in KINDS:
        inputs = values(kind, SIZES)
        inputs["scores"] = tf.cast(inputs["scores"] / (4 if kind == "distinct" else 1), dtype)
        computed = program(**inputs)
        assert computed[0].dtype == dtype
        exact = tf.cast(inputs.pop("scores"), tf.float64).numpy()
        for value, wanted in zip(computed, reference(6, exact, **inputs), strict=True):
            np.testing.assert_array_equal(tf.cast(value, wanted.dtype), wanted, err_msg=kind)


def test_each_processor_sends_its_choices_only():
    fn, inputs = functools.partial(choose, 3), specs(SIZES)
    mesh = mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols", "stacked").mesh_impl
    sizes = [8, 8, 4 * 4, 8, 4]  # bytes of a score, of its position, and of its rows
    assert mesh.exchanged == [Exchange("gather", (0, 1), 3 * 3 * size) for size in sizes]


def test_nothing_is_differentiated():
    def fn(x):
        best, (rows,) = mi.ops.top_k(mtf.square(x), [x], 2)
        loss = mtf.reduce_sum(best) + mtf.reduce_sum(rows)
        return mtf.gradients([loss + mtf.reduce_sum(x * x)], [x])[0]

    x = np.arange(12.0).reshape(2, 6)
    dx = mi.Program(fn, {"x": ("batch:2,x:6", "float64")}, "rows:4", "x:rows")(x=x)
    np.testing.assert_array_equal(dx, 2 * x)


def test_a_choice_can_be_recomputed():
    def fn(x):
        y = mi.ops.recompute(lambda x: mi.ops.top_k(x, [x], 2)[1][0] * mtf.reduce_sum(x), x)
        return mtf.gradients([mtf.reduce_sum(y)], [x])[0]

    x = np.arange(12.0).reshape(2, 6)
    dx = mi.Program(fn, {"x": ("batch:2,x:6", "float64")}, "rows:4", "x:rows")(x=x)
    np.testing.assert_array_equal(dx, np.full([2, 6], 4 + 5 + 10 + 11))


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda x, n: mi.ops.top_k(x, [], 0)[0], "top_k 'top_k': k must be at least 1, not 0"),
        (lambda x, n: mi.ops.top_k(n, [], 1, "best")[0], "top_k 'best': scores must have a batch dimension"),
        (
            lambda x, n: mi.ops.top_k(x, [mtf.rename_dimension(x, "batch", "coords")], 1)[0],
            "the dimensions of rows must be dimensions of the scores, followed by fields",
        ),
        (
            lambda x, n: mi.ops.top_k(x, [mtf.slice(x, 0, 2, "x")], 1)[0],
            "the dimensions of rows must be dimensions of the scores, followed by fields",
        ),
    ],
)
def test_mistakes(fn, text):
    with pytest.raises(mi.ShapeError) as error:
        mi.Program(fn, {"x": "batch:2,x:6", "n": ("batch:2,x:6", "int32")})
    assert text in str(error.value)


def test_split_fields_are_refused():
    with pytest.raises(mi.LayoutError, match=r"top_k 'top_k': cannot split 'coords' \(size 4\) over 'rows' \(size 2\)"):
        mi.Program(functools.partial(choose, 3), specs(SIZES), "rows:2", "coords:rows")
