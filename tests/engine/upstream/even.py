"""Operations of mesh_tensorflow on even slices, as functions of a and b, both Tensor[batch, x, y, channels].

They split, combine and move elements along split dimensions, and have inputs of different shapes.
"""

import numpy as np
import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
Dim = mtf.Dimension
B, X, Y, C = Dim("batch", 2), Dim("x", 8), Dim("y", 4), Dim("channels", 4)
SHAPE = "batch:2,x:8,y:4,channels:4"


def _over(t, *kept):
    return mtf.reduce_sum(t, output_shape=mtf.Shape(list(kept)))


def _renamed(a, b):
    return mtf.einsum([a, mtf.rename_dimension(b, "x", "u")], output_shape=[B, X, Dim("u", 8)])


def _pairs(a, b):
    """Calls `slicewise` with two outputs; one is split like `a`, the other like the sum of `b`."""
    shapes = [a.shape, mtf.Shape([C])]
    small = _over(b, C)
    return mtf.slicewise(lambda u, v: (u * v, v * v), [a, small], shapes, [a.dtype] * 2, a.shape.dims)


def _wider(a):
    """Adds a dimension that no layout splits."""
    wide = Dim("w", 3)
    return mtf.multiply(a, mtf.range(a.mesh, wide, a.dtype) + 1, output_shape=mtf.Shape([*a.shape.dims, wide]))


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
    "einsum between split dimensions": _renamed,
    "stack along a new dimension": lambda a, b: mtf.stack([a, b], "pair", 1),
    "unstack channels": lambda a, b: mtf.add_n(mtf.unstack(a * b, C)),
    "split channels": lambda a, b: mtf.split(a, C, 2)[0] * mtf.split(b, C, 2)[1],
    "pad channels": lambda a, b: mtf.pad(a * b, [1, 2], "channels"),
    "softmax over split": lambda a, b: mtf.softmax(a, X) * b,
    "log_softmax": lambda a, b: mtf.log_softmax(a, C) * b,
    "shift with wrap": lambda a, b: mtf.shift(a, 3, X, wrap=True) * b,
    "shift without wrap": lambda a, b: mtf.shift(a, -5, X, wrap=False) * b,
    "transpose": lambda a, b: mtf.transpose(a, mtf.Shape([C, Y, B, X])) * mtf.reduce_sum(b),
    "reshape to another split": lambda a, b: mtf.rename_dimension(mtf.rename_dimension(a, "x", "t"), "y", "x2") * 2.0,
    "reshape from split to split": lambda a, b: mtf.reshape(a, mtf.Shape([B, Dim("y", 8), Dim("x", 4), C])),
    "gather along split": lambda a, b: (
        mtf.reduce_sum(a) * mtf.gather(b, mtf.range(b.mesh, Dim("picked", 4), tf.int32) * 2, X)
    ),
    "one_hot over split": lambda a, b: mtf.one_hot(mtf.argmax(a, Y), Y, dtype=a.dtype) * mtf.reduce_sum(b),
    "argmax over split": lambda a, b: mtf.cast(mtf.argmax(a, X), a.dtype) * mtf.reduce_sum(b, reduced_dim=X),
    "cumsum along split": lambda a, b: mtf.cumsum(a, X) * b,
    "where": lambda a, b: mtf.where(mtf.greater(a, b), a, b * 2),
    "constant": lambda a, b: a * mtf.ones(a.mesh, a.shape, a.dtype) + mtf.zeros_like(b),
    "range": lambda a, b: a * mtf.range(a.mesh, X, a.dtype) + b,
    "stop_gradient": lambda a, b: mtf.stop_gradient(a) * b,
    "recompute_grad": lambda a, b: mtf.recompute_grad(lambda u, v: mtf.tanh(u * v) * u, [a, b]),
    "print": lambda a, b: mtf.Print(a, [mtf.reduce_sum(a)], "sum", output_stream="file:///dev/null") * b,
    "cwise with channels": lambda a, b: mtf.cwise(lambda u, v: u * v, [a, _over(b, C)]),
    "cwise with x": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v[:, None, None], [a, _over(b, X)]),
    "cwise with y": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v[:, None], [a, _over(b, Y)]),
    "cwise with a scalar": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v, [a, mtf.reduce_sum(b)]),
    "slicewise that reduces": lambda a, b: mtf.slicewise(
        lambda u, v: tf.einsum("bxycw,x->bxyc", u, v), [_wider(a), _over(b, X)], a.shape, splittable_dims=a.shape.dims
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


def values():
    """Returns a and b. In a permutation no two values are equal, so every maximum is unique."""
    rng = np.random.default_rng(0)
    return tuple(rng.permutation(256).reshape(2, 8, 4, 4) / 256 - 0.5 for _ in range(2))


def with_gradients(ops):
    """Returns a function from a and b to {name: (value, gradient with respect to a, gradient with respect to b)}."""

    def fn(a, b):
        results = {}
        for name, op in ops.items():
            y = op(a, b)
            gradients = mtf.gradients([mtf.reduce_sum(mtf.square(y))], [a, b])
            results[name] = (y, *(mtf.zeros_like(a) if dx is None else dx for dx in gradients))
        return results

    return fn
