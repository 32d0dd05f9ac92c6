"""Values and gradients of mesh_tensorflow's operations along split dimensions and for inputs of different shapes.

For each layout and mesh, one program contains all operations. Each operation has inputs a and b, both
Tensor[batch, x, y, channels].
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.exchanges import check_exchanges

mtf = mi.mtf
Dim = mtf.Dimension
B, X, Y, C = Dim("batch", 2), Dim("x", 8), Dim("y", 4), Dim("channels", 4)
SHAPE = "batch:2,x:8,y:4,channels:4"


def _over(t, *kept):
    return mtf.reduce_sum(t, output_shape=mtf.Shape(list(kept)))


def _pairs(a, b):
    """Calls `slicewise` with two outputs; one is split like `a`, the other like the sum of `b`."""
    shapes = [a.shape, mtf.Shape([C])]
    small = _over(b, C)
    return mtf.slicewise(lambda u, v: (u * v, v * v), [a, small], shapes, [a.dtype] * 2, a.shape.dims)


def _second(y, x):
    return mtf.gradients([mtf.reduce_sum(y)], [x])[0]


def _blocks(t):
    return mtf.reshape(t, mtf.Shape([B, Dim("w", 2), Dim("x", 4), Y, C]))


def _loop(body, *start):
    count = mtf.constant(start[0].mesh, 0, dtype=tf.int32)
    loop = mtf.while_loop(lambda i, t: mtf.less(i, 3), lambda i, t: [i + 1, body(t)], [count, *start])
    return mtf.stop_gradient(loop[1])


def _second_to_the_smaller(a, b):
    small = _over(b, C)
    return _second(mtf.cwise(lambda u, v: tf.sinh(u) * v * v, [a, small]), small)


def _loop_with_outer_tensors(a, b):
    outer = _over(b, C)
    return _loop(lambda t: t + outer, _over(a, C)) * outer * b


def _loop_with_sums(a, b):
    outer = mtf.sin(a)
    return _loop(lambda t: _over(outer, C) + _over(outer * t, C), _over(b, C))


def _accumulated(a):
    count = mtf.constant(a.mesh, 0, dtype=tf.int32)
    total = mtf.while_loop(
        lambda i: mtf.less(i, 3),
        lambda i: [i + 1, _over(a, C) * mtf.cast(i, a.dtype), a],
        [count],
        has_accumulators=True,
    )
    return mtf.stop_gradient(total[1]) * mtf.stop_gradient(total[2])


OPS = {
    "cwise with channels": lambda a, b: mtf.cwise(lambda u, v: u * v, [a, _over(b, C)]),
    "cwise with x": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v[:, None, None], [a, _over(b, X)]),
    "cwise with y": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v[:, None], [a, _over(b, Y)]),
    "cwise with a scalar": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v, [a, mtf.reduce_sum(b)]),
    "slicewise that reduces": lambda a, b: mtf.slicewise(
        lambda u, v: tf.einsum("bxyc,x->xyc", u, v), [a, _over(b, X)], mtf.Shape([X, Y, C]), splittable_dims=[X, Y, C]
    ),
    "slicewise with two outputs": lambda a, b: _pairs(a, b)[0] * _pairs(a, b)[1],
    "slicewise, one output of two used": lambda a, b: _pairs(a, b)[0],
    "slicewise with integers": lambda a, b: mtf.cwise(
        lambda u, i: u * tf.cast(i, u.dtype), [a * b, mtf.cast(a * 7, tf.int32)]
    ),
    "cwise that cannot be vectorized": lambda a, b: mtf.cwise(
        lambda u, v: tf.nn.conv2d(u, tf.linalg.diag(v)[None, None], 1, "SAME"), [a, _over(b, C)]
    ),
    "second derivative of softplus": lambda a, b: _second(mtf.softplus(a) * mtf.square(b), a) * b,
    "second derivative of cwise": lambda a, b: _second(
        mtf.cwise(lambda u, v: tf.sinh(u) * v * v, [a, _over(b, C)]) * b, a
    ),
    "second derivative to the smaller": _second_to_the_smaller,
    "maximum with x": lambda a, b: mtf.maximum(a, _over(b, X) * 0.1) * b,
    "minimum with channels": lambda a, b: mtf.minimum(_over(a, C) * 0.1, b) * b,
    "maximum of x and y": lambda a, b: mtf.maximum(_over(a, X), _over(b, Y)),
    "concat": lambda a, b: mtf.concat([a, b], "x") * mtf.range(a.mesh, Dim("x", 16), a.dtype),
    "concat of other sizes": lambda a, b: mtf.concat([a, mtf.concat([b, a], "y")], "y"),
    "concat channels": lambda a, b: mtf.concat([a, b], "channels"),
    "slice": lambda a, b: mtf.slice(a, 3, 4, "x") * mtf.slice(b, 0, 4, "x"),
    "slice channels": lambda a, b: mtf.slice(a * b, 1, 2, "channels"),
    "pad": lambda a, b: mtf.pad(a, [3, 5], "x") * 2.0 + mtf.pad(b, [0, 8], "x"),
    "pad y": lambda a, b: mtf.pad(a * b, [1, 3], "y"),
    "split": lambda a, b: mtf.split(a, X, 2)[0] * mtf.split(b, X, [4, 4])[1],
    "one part of a split": lambda a, b: mtf.split(a * b, Y, 2)[1],
    "stack": lambda a, b: mtf.stack([_over(a, Y, C) * i for i in range(7)] + [_over(b, Y, C)], "x", 1),
    "unstack": lambda a, b: mtf.add_n([t * i for i, t in enumerate(mtf.unstack(a * b, X))]),
    "one tensor of an unstack": lambda a, b: mtf.unstack(a * b, C)[1],
    "top_k": lambda a, b: mtf.top_k(a, X, Dim("k", 6))[0] * _over(b, Y),
    "indices of top_k": lambda a, b: mtf.cast(mtf.top_k(a, X, Dim("k", 6))[1], a.dtype) * _over(b, Y),
    "top_k into another split": lambda a, b: mtf.top_k(_over(a, X, C), X, Dim("y", 8))[0],
    "top_k into the same split": lambda a, b: mtf.stop_gradient(mtf.top_k(_over(a, X, B), X, Dim("x", 6))[0]),
    "small top_k into a split": lambda a, b: mtf.top_k(_over(a, X, B), X, Dim("channels", 4))[0] * b,
    "depend on unused tensors": lambda a, b: mtf.depend(a, [mtf.sin(b), _over(b, X)]) * b,
    "depend on an operation": lambda a, b: mtf.depend(a, [mtf.sin(b).operation]) * b,
    "reshape of sizes that divide nothing": lambda a, b: mtf.reshape(
        mtf.reshape(_over(a * b, Y, X), mtf.Shape([Dim("d", 2), Dim("e", 16)])) * 2.0, mtf.Shape([X, Dim("f", 4)])
    ),
    "reshape into one dimension": lambda a, b: mtf.reshape(a * b, mtf.Shape([Dim("x", 256)])),
    "reshape from batch": lambda a, b: mtf.reshape(_over(a * b, B, Y), mtf.Shape([X])),
    "halo_exchange along the split": lambda a, b: mtf.halo_exchange(_blocks(a * b), Dim("w", 2), Dim("x", 4), 2),
    "halo_exchange of blocks": lambda a, b: mtf.halo_exchange(
        mtf.reshape(a * b, mtf.Shape([B, Dim("x", 4), Dim("w", 2), Y, C])), Dim("x", 4), Dim("w", 2), 3, wrap=True
    ),
    "while_loop": lambda a, b: _loop(lambda t: t * 2.0 + _over(t, B, Y, C), a) * b,
    "while_loop with outer tensors": _loop_with_outer_tensors,
    "while_loop with sums over processors": _loop_with_sums,
    "while_loop along a split": lambda a, b: _loop(lambda t: mtf.pad(mtf.slice(t, 1, 4, "x"), [2, 2], "x"), a) * b,
    "accumulators": lambda a, b: _accumulated(a) * b,
}
SETUPS = [
    pytest.param("rows:1,cols:2", "x:rows,y:cols", "stacked", 1, marks=pytest.mark.slow),
    pytest.param("rows:2,cols:2", "x:rows,y:cols", "placement", 4, marks=pytest.mark.slow),
    pytest.param("m:2,spare:3,k:2", "channels:m,x:k", "placement", 2, marks=pytest.mark.slow),
    ("rows:2,cols:2", "x:rows,y:cols", "stacked", 1),
    pytest.param("m:2,spare:3,k:2", "channels:m,x:k", "stacked", 1, marks=pytest.mark.slow),
    pytest.param("rows:1,cols:2", "x:rows,y:cols", "placement", 2, marks=pytest.mark.slow),
    pytest.param("cols:2,rows:2,cores:2", "y:rows,x:cols,channels:cores", "placement", 8, marks=pytest.mark.slow),
]


@functools.cache
def _results(mesh_shape, layout, mesh_impl, num_devices):
    """Returns {name: [value, gradient with respect to a, gradient with respect to b]} under a layout."""
    rng = np.random.default_rng(0)
    # In a permutation no two values are equal, so every maximum is unique.
    a, b = (rng.permutation(256).reshape(2, 8, 4, 4) / 256 - 0.5 for _ in range(2))

    def fn(a, b):
        results = {}
        for name, op in OPS.items():
            y = op(a, b)
            gradients = mtf.gradients([mtf.reduce_sum(mtf.square(y))], [a, b])
            results[name] = (y, *(mtf.zeros_like(a) if dx is None else dx for dx in gradients))
        return results

    devices = [f"CPU:{number}" for number in range(num_devices)]
    inputs = {"a": (SHAPE, "float64"), "b": (SHAPE, "float64")}
    p = mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, devices)
    check_exchanges(p, fn, inputs)
    return {name: [value.numpy() for value in values] for name, values in p(a=a, b=b).items()}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(("mesh_shape", "layout", "mesh_impl", "num_devices"), SETUPS)
def test_equals_whole(name, mesh_shape, layout, mesh_impl, num_devices):
    found, whole = _results(mesh_shape, layout, mesh_impl, num_devices)[name], _results("", "", "stacked", 1)[name]
    for value, expected in zip(found, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
