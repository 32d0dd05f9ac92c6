"""Operations of mesh_tensorflow: values and gradients under a layout equal the results on one processor."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.eager import EagerProgram
from tests.engine.exchanges import check_exchanges
from tests.engine.harness import assert_all_pairs, pairwise, program_class

mtf = mi.mtf
Dim = mtf.Dimension
X, Y, B = Dim("x", 8), Dim("y", 4), Dim("batch", 2)


def _concat(a, b):
    return mtf.concat([a, b], "channels")


def _moe_like(a, b):
    return mtf.einsum([a, mtf.rename_dimension(b, "x", "u")], output_shape=[B, X, Dim("u", 8)])


OPS = {
    "add": lambda a, b: a + b,
    "multiply with broadcast": lambda a, b: a * mtf.reduce_sum(b, reduced_dim=Y),
    "divide": lambda a, b: a / (mtf.square(b) + 1),
    "scalar": lambda a, b: 2 * a - b * 3 + 1,
    "maximum": mtf.maximum,
    "relu": lambda a, b: mtf.relu(a) * b,
    "cwise function": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v, [a, b]),
    "sin of broadcast": lambda a, b: mtf.sin(mtf.broadcast(mtf.reduce_sum(a, reduced_dim=X), a.shape)) * b,
    "gelu": lambda a, b: mtf.gelu(a) + mtf.swish(b),
    "reduce_sum over split": lambda a, b: mtf.reduce_sum(a * b, reduced_dim=X),
    "reduce_mean of all": lambda a, b: mtf.reduce_mean(a * b),
    "reduce_max over split": lambda a, b: mtf.reduce_max(a, reduced_dim=X) + mtf.reduce_max(b, reduced_dim=Y),
    "reduce_min over split": lambda a, b: mtf.reduce_min(a * b, reduced_dim=X),
    "reduce_logsumexp": lambda a, b: mtf.reduce_logsumexp(a, X) * mtf.reduce_sum(b, reduced_dim=X),
    "einsum": lambda a, b: mtf.einsum([a, b], output_shape=[B, X]),
    "einsum between split dimensions": _moe_like,
    "concat": _concat,
    "stack": lambda a, b: mtf.stack([a, b], "pair", 1),
    "unstack": lambda a, b: mtf.add_n(mtf.unstack(a * b, a.shape.dims[-1])),
    "split": lambda a, b: mtf.split(a, a.shape.dims[-1], 2)[0] * mtf.split(b, b.shape.dims[-1], 2)[1],
    "slice": lambda a, b: mtf.slice(a, 1, 2, "channels") * mtf.slice(b, 0, 2, "channels"),
    "pad": lambda a, b: mtf.pad(a * b, [1, 2], "channels"),
    "softmax over split": lambda a, b: mtf.softmax(a, X) * b,
    "log_softmax": lambda a, b: mtf.log_softmax(a, a.shape.dims[-1]) * b,
    "shift with wrap": lambda a, b: mtf.shift(a, 3, X, wrap=True) * b,
    "shift without wrap": lambda a, b: mtf.shift(a, -5, X, wrap=False) * b,
    "transpose": lambda a, b: mtf.transpose(a, mtf.Shape([a.shape.dims[-1], Y, B, X])) * mtf.reduce_sum(b),
    "reshape to another split": lambda a, b: mtf.rename_dimension(mtf.rename_dimension(a, "x", "t"), "y", "x2") * 2.0,
    "reshape from split to split": lambda a, b: mtf.reshape(
        a, mtf.Shape([B, Dim("y", 8), Dim("x", 4), a.shape.dims[-1]])
    ),
    "gather along split": lambda a, b: (
        mtf.reduce_sum(a) * mtf.gather(b, mtf.range(b.mesh, Dim("picked", 4), tf.int32) * 2, X)
    ),
    "one_hot over split": lambda a, b: mtf.one_hot(mtf.argmax(a, Y), Y, dtype=a.dtype) * mtf.reduce_sum(b),
    "argmax over split": lambda a, b: mtf.cast(mtf.argmax(a, X), a.dtype) * mtf.reduce_sum(b, reduced_dim=X),
    "top_k over split": lambda a, b: mtf.top_k(a, X, Dim("k", 3))[0] * mtf.reduce_sum(b, reduced_dim=X),
    "cumsum along split": lambda a, b: mtf.cumsum(a, X) * b,
    "where": lambda a, b: mtf.where(mtf.greater(a, b), a, b * 2),
    "constant": lambda a, b: a * mtf.ones(a.mesh, a.shape, a.dtype) + mtf.zeros_like(b),
    "range": lambda a, b: a * mtf.range(a.mesh, X, a.dtype) + b,
    "stop_gradient": lambda a, b: mtf.stop_gradient(a) * b,
    "recompute_grad": lambda a, b: mtf.recompute_grad(lambda u, v: mtf.tanh(u * v) * u, [a, b]),
    "depend": lambda a, b: mtf.depend(a, [b]) * b,
    "print": lambda a, b: mtf.Print(a, [mtf.reduce_sum(a)], "sum") * b,
}
LAYOUTS = [
    ("rows:2,cols:2", "x:rows,y:cols"),
    ("rows:4", "x:rows"),
    ("cols:2,rows:2,cores:2", "y:rows,x:cols,batch:cores"),
    ("rows:2,spare:2,cols:2,rest:2", "x:rows,batch:cols"),
]
DEVICES = [f"/device:CPU:{number}" for number in range(4)]  # larger meshes have two or four slices per device


def _run(op, mesh_shape, layout, mesh_impl, kind=EagerProgram):
    """Returns the value of an operation and its gradients, from a program of class `kind`."""
    rng = np.random.default_rng(0)
    shape = "batch:2,x:8,y:4,channels:4"
    # In a permutation no two values are equal, so every maximum is unique.
    a, b = (rng.permutation(256).reshape(2, 8, 4, 4) / 256 - 0.5 for _ in range(2))

    def fn(a, b):
        y = op(a, b)
        gradients = mtf.gradients([mtf.reduce_sum(mtf.square(y))], [a, b])
        return tuple(mtf.zeros_like(a) if t is None else t for t in (y, *gradients))

    inputs = {"a": (shape, "float64"), "b": (shape, "float64")}
    p = kind(fn, inputs, mesh_shape, layout, mesh_impl, DEVICES)
    results = [v.numpy() for v in p(a=a, b=b)]
    check_exchanges(p, fn, inputs)
    return results


_whole = {}


TABLE = list(itertools.product(OPS, LAYOUTS, ["stacked", "placement"]))
ROWS = pairwise(TABLE)


def test_all_pairs_of_an_operation_a_layout_and_a_mesh_implementation_occur():
    assert_all_pairs(ROWS, TABLE)


@pytest.mark.mostly_slow(fast=0.15)
@pytest.mark.parametrize(("name", "layout", "mesh_impl"), ROWS, ids=str)
def test_equals_one_processor(name, layout, mesh_impl):
    if name not in _whole:
        _whole[name] = _run(OPS[name], "", "", "stacked")
    values = _run(OPS[name], *layout, mesh_impl, program_class(name, layout, mesh_impl))
    for value, expected in zip(values, _whole[name], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize(
    ("mesh_shape", "layout"),
    [
        ("rows:2,cols:4", "x:rows,late:cols"),
        ("cols:4,rows:2", "x:rows,late:cols"),
        ("rows:2,cols:2", "late:rows,x:cols"),
    ],
)
def test_a_renaming_changes_the_layout(mesh_shape, layout, mesh_impl):
    def op(a, b):
        y = mtf.rename_dimension(mtf.rename_dimension(a * b, "x", "late"), "y", "later")
        return y * mtf.range(a.mesh, Dim("late", 8), a.dtype)

    for value, expected in zip(_run(op, mesh_shape, layout, mesh_impl), _run(op, "", "", "stacked"), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_some_operations_against_numpy():
    # The tests above compare with one processor, so its results must be correct.
    rng = np.random.default_rng(0)
    a, b = (rng.permutation(256).reshape(2, 8, 4, 4) / 256 - 0.5 for _ in range(2))
    np.testing.assert_allclose(_run(OPS["einsum"], "", "", "stacked")[0], np.einsum("bxyc,bxyc->bx", a, b))
    np.testing.assert_allclose(_run(OPS["shift with wrap"], "", "", "stacked")[0], np.roll(a, 3, 1) * b)
    np.testing.assert_allclose(_run(OPS["reduce_mean of all"], "", "", "stacked")[1], 2 * (a * b).mean() * b / a.size)
