"""Operations of mesh_tensorflow along dimensions of any size, on inputs a and b, Tensor[batch, x, y, channels].

Their sizes are 3, 7, 5 and 6. No two values of the inputs are equal, so every maximum is unique.
"""

import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
Dim, Shape = mtf.Dimension, mtf.Shape
B, X, Y, C = Dim("batch", 3), Dim("x", 7), Dim("y", 5), Dim("channels", 6)
SHAPE = "batch:3,x:7,y:5,channels:6"
W = Dim("w", 4)


def over(t, *kept):
    return mtf.reduce_sum(t, output_shape=Shape(list(kept)))


def _second(y, x):
    return mtf.gradients([mtf.reduce_sum(y)], [x])[0]


def _reshaped(t, *dims):
    return mtf.reshape(t, Shape(list(dims)))


def _loop(body, *start):
    count = mtf.constant(start[0].mesh, 0, dtype=tf.int32)
    loop = mtf.while_loop(lambda i, t: mtf.less(i, 3), lambda i, t: [i + 1, body(t)], [count, *start])
    return mtf.stop_gradient(loop[1])


def _kernel(t):
    shape = Shape([Dim("fx", 3), Dim("fy", 2), C, Dim("out", 2)])
    values = tf.sin(tf.range(72, dtype=tf.float64))
    return mtf.import_tf_tensor(t.mesh, tf.cast(tf.reshape(values, shape.to_integer_list), t.dtype), shape)


def _picked(t, size=4):
    return mtf.range(t.mesh, Dim("picked", size), tf.int32) * 2


def _as_float(t, like):
    return mtf.cast(t, like.dtype)


ELEMENTWISE = {
    "add": lambda a, b: a + b,
    "multiply with broadcast": lambda a, b: a * over(b, X),
    "divide": lambda a, b: a / (mtf.square(b) + 1),
    "logarithm": lambda a, b: mtf.log(a + 1) * mtf.rsqrt(b + 1),
    "cwise": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * v, [a, b]),
    "slicewise": lambda a, b: mtf.slicewise(lambda u, v: tf.sinh(u) * v, [a, b], splittable_dims=a.shape.dims),
    "second derivative of cwise": lambda a, b: _second(mtf.cwise(lambda u, v: tf.sinh(u) * v * v, [a, b]), b) * b,
    "maximum of x and y": lambda a, b: mtf.maximum(over(a, X), over(b, Y)),
    "minimum": lambda a, b: mtf.minimum(over(a, C) * 0.1, b) * b,
    "where": lambda a, b: mtf.where(mtf.greater(a, b), a, b * 2),
    "logical operations": lambda a, b: mtf.where(
        mtf.logical_or(mtf.greater(a, 0.2), mtf.logical_not(mtf.less(b, 0.1))), a, b
    ),
    "broadcast": lambda a, b: mtf.sin(mtf.broadcast(over(a, Y), a.shape)) * b,
    "constants": lambda a, b: (
        a * mtf.ones(a.mesh, a.shape, a.dtype) + mtf.zeros_like(b) + mtf.constant(a.mesh, 2, Shape([X]), a.dtype)
    ),
    "range": lambda a, b: a * mtf.range(a.mesh, X, a.dtype) + b * mtf.range(a.mesh, Y, a.dtype),
    "transpose": lambda a, b: mtf.transpose(a, Shape([C, Y, B, X])) * mtf.reduce_sum(b),
    "stop_gradient": lambda a, b: mtf.stop_gradient(a) * b,
    "depend": lambda a, b: mtf.depend(a, [mtf.sin(b), over(b, X)]) * b,
    "print": lambda a, b: mtf.Print(a, [mtf.reduce_sum(a)], "sum") * b,
    "recompute_grad": lambda a, b: mtf.recompute_grad(lambda u, v: mtf.tanh(u * v) * over(u, X), [a, b]),
    # TensorFlow differentiates these functions, whose arguments are computed by a reshape.
    "sin of a reshape": lambda a, b: mtf.sin(_reshaped(a * b, B, X, Dim("w", 30))),
    "elu of a convolution": lambda a, b: mtf.elu(mi.ops.conv2d(a, _kernel(a), name="conv")) * over(b, X),
    "selu of a norm": lambda a, b: mtf.selu(mi.ops.instance_norm(a, 1e-3, "norm_of_selu")) * b,
    "cos of a concat": lambda a, b: mtf.cos(mtf.concat([a, b], "y")),
    "softplus of an input": lambda a, b: mtf.softplus(a) * mtf.cos(b),
    "cwise with a broadcast input": lambda a, b: mtf.cwise(lambda u, v: tf.sinh(u) * tf.exp(v), [a, over(b, C)]),
    "custom names": lambda a, b: mtf.rename_dimension(a, "batch", "cases") * over(b, X),
}
REDUCTIONS = {
    "reduce_sum over x": lambda a, b: mtf.reduce_sum(a * b, reduced_dim=X),
    "reduce_sum over x and y": lambda a, b: over(a * b, B, C) * over(a, B),
    "reduce_sum of a broadcast": lambda a, b: over(over(a, X) * over(b, Y), X),
    "reduce_sum of positive tails": lambda a, b: mtf.reduce_sum(mtf.exp(a), reduced_dim=X) * over(b, Y),
    "sum of deferred sums": lambda a, b: (over(a, B, C) + over(b, B, C)) * over(a, C),
    "reduce_mean": lambda a, b: mtf.reduce_mean(a * b) + mtf.reduce_mean(a, reduced_dim=X),
    "reduce_max": lambda a, b: mtf.reduce_max(a - 2, reduced_dim=X) + mtf.reduce_max(b, reduced_dim=Y),
    "reduce_max of all": lambda a, b: mtf.reduce_max(a - 2) * over(b, X),
    "reduce_min": lambda a, b: mtf.reduce_min(a + 2, reduced_dim=X) * mtf.reduce_min(b + 2, reduced_dim=Y),
    "reduce_max of integers": lambda a, b: (
        _as_float(mtf.reduce_max(mtf.cast(a * 99 - 200, tf.int32), reduced_dim=X), a) * over(b, Y)
    ),
    "reduce_sum of integers": lambda a, b: (
        _as_float(mtf.reduce_sum(mtf.cast(a * 99, tf.int32), reduced_dim=X), a) * over(b, Y)
    ),
    "reduce_min of integers": lambda a, b: (
        _as_float(mtf.reduce_min(mtf.cast(a * 99 + 200, tf.int32), reduced_dim=Y), a) * over(b, X)
    ),
    "reduce_any": lambda a, b: _as_float(mtf.reduce_any(mtf.greater(a, 0.49), reduced_dim=X), a) * over(b, Y),
    "reduce_all": lambda a, b: _as_float(mtf.reduce_all(mtf.less(a, 0.4), reduced_dim=X), a) * over(b, Y),
    "reduce_logsumexp": lambda a, b: mtf.reduce_logsumexp(a, X) * over(b, Y),
    "reduce_first": lambda a, b: mtf.reduce_first(a, reduced_dim=X) * over(b, Y),
    "softmax over x": lambda a, b: mtf.softmax(a, X) * b,
    "log_softmax over y": lambda a, b: mtf.log_softmax(a, Y) * b,
    "argmax over x": lambda a, b: _as_float(mtf.argmax(a, X), a) * over(b, Y),
    "one_hot of argmax": lambda a, b: mtf.one_hot(mtf.argmax(a, Y), Y, dtype=a.dtype) * over(b, X),
    "one_hot into x": lambda a, b: (
        mtf.one_hot(mtf.cast(over(a, Y) * 0 + 3, tf.int32), X, on_value=2.0, off_value=-1.0, dtype=a.dtype) * b
    ),
    "top_k": lambda a, b: mtf.top_k(a, X, Dim("k", 6))[0] * over(b, Y),
    "top_k of 2": lambda a, b: mtf.top_k(a - 2, X, Dim("k", 2))[0] * over(b, Y),
    "indices of top_k": lambda a, b: _as_float(mtf.top_k(a, X, Dim("k", 6))[1], a) * over(b, Y),
    "top_k into another split": lambda a, b: mtf.top_k(over(a, X, C), X, Dim("y", 5))[0] * over(b, Y),
    "top_k into the same split": lambda a, b: mtf.stop_gradient(mtf.top_k(over(a, X, B), X, Dim("x", 5))[0]),
    "cumsum along x": lambda a, b: mtf.cumsum(a, X) * b,
    "exclusive cumsum along y": lambda a, b: mtf.cumsum(a, Y, exclusive=True) * b,
    "nth_largest_element": lambda a, b: mtf.nth_largest_element(a, 2, X) * over(b, Y),
}
EINSUMS = {
    "einsum over y and channels": lambda a, b: mtf.einsum([a, b], output_shape=[B, X]),
    "einsum over x": lambda a, b: mtf.einsum([a, b], output_shape=[B, Y, C]),
    "einsum over all": lambda a, b: mtf.einsum([a, b], output_shape=[]) * over(a, X),
    "einsum of three": lambda a, b: mtf.einsum([a, over(b, X, Y), over(b, C)], output_shape=[B, C]),
    "einsum between x and a copy": lambda a, b: mtf.einsum(
        [a, mtf.rename_dimension(b, "x", "u")], output_shape=[B, X, Dim("u", 7)]
    ),
    "einsum of a copy of y": lambda a, b: mtf.einsum([over(a, X, Y), over(b, Y, C)], output_shape=[X, C]),
    "matmul": lambda a, b: mtf.matmul(over(a, X, Y), over(b, Y, C), output_shape=Shape([X, C])),
    "gather along x": lambda a, b: mtf.reduce_sum(a) * mtf.gather(b, _picked(b), X),
    "gather along channels": lambda a, b: mtf.gather(a * b, _picked(b, 3), C),
    "gather by values along x": lambda a, b: mtf.gather(a, mtf.argmax(b, X), X),
    "gather of one": lambda a, b: mtf.gather(a, 6, X) * mtf.gather(b, 0, X),
    "deferred sums": lambda a, b: mtf.maximum(over(a, B, C) + over(b, B, C), over(a, B, C)),
}
MOVES = {
    "concat along x": lambda a, b: mtf.concat([a, b], "x") * mtf.range(a.mesh, Dim("x", 14), a.dtype),
    "concat of other sizes": lambda a, b: mtf.concat([a, mtf.concat([b, a], "y")], "y"),
    "concat channels": lambda a, b: mtf.concat([a, b], "channels"),
    "slice x": lambda a, b: mtf.slice(a, 3, 4, "x") * mtf.slice(b, 0, 4, "x"),
    "slice the end of x": lambda a, b: mtf.slice(a, 5, 2, "x") * over(b, C),
    "slice y": lambda a, b: mtf.slice(a * b, 1, 3, "y"),
    "slice channels": lambda a, b: mtf.slice(a * b, 1, 5, "channels"),
    "pad x": lambda a, b: mtf.pad(a, [3, 5], "x") * 2.0 + mtf.pad(b, [0, 8], "x"),
    "pad y": lambda a, b: mtf.pad(a * b, [1, 3], "y"),
    "split x": lambda a, b: mtf.split(a, X, [3, 4])[1] * mtf.split(b, X, [4, 3])[0],
    "split channels": lambda a, b: mtf.split(a, C, 2)[0] * mtf.split(b, C, [3, 3])[1],
    "one part of a split": lambda a, b: mtf.split(a * b, Y, [2, 3])[1],
    "stack": lambda a, b: mtf.stack([a, b], "pair", 1),
    "stack into x": lambda a, b: mtf.stack([over(a, Y, C) * i for i in range(4)] + [over(b, Y, C)], "x", 1),
    "unstack x": lambda a, b: mtf.add_n([t * i for i, t in enumerate(mtf.unstack(a * b, X))]),
    "one tensor of an unstack": lambda a, b: mtf.unstack(a * b, Y)[3],
    **{
        f"shift by {offset}{' with wrap' * wrap}": lambda a, b, o=offset, w=wrap: mtf.shift(a, o, X, wrap=w) * b
        for offset in (1, -1, 3, -5, 6, 7, -9)
        for wrap in (True, False)
    },
    "shift y": lambda a, b: mtf.shift(a, 2, Y, wrap=True) * mtf.shift(b, -1, Y, wrap=False),
    "shift batch": lambda a, b: mtf.shift(a, 1, B, wrap=True) * b,
    "dynamic_shift": lambda a, b: mtf.dynamic_shift(a, mtf.constant(a.mesh, 3, dtype=tf.int32), X, True) * b,
    "halo_exchange along x": lambda a, b: mtf.halo_exchange(_reshaped(a * b, B, X, Dim("w", 5), C), X, Dim("w", 5), 2),
    "while_loop": lambda a, b: _loop(lambda t: t * 2.0 + over(t, B, Y, C), a) * b,
    "while_loop with a sum": lambda a, b: _loop(lambda t: over(mtf.sin(a), C) + over(a * t, C), over(b, C)) * b,
    "while_loop along x": lambda a, b: _loop(lambda t: mtf.pad(mtf.slice(t, 1, 4, "x"), [2, 1], "x"), a) * b,
}
RESHAPES = {
    "rename x": lambda a, b: mtf.rename_dimension(a, "x", "t") * 2.0,
    "rename y to a split": lambda a, b: mtf.rename_dimension(mtf.rename_dimension(a * b, "x", "t"), "y", "x"),
    "exchange of splits": lambda a, b: _reshaped(a * b, B, Dim("y", 7), Dim("x", 5), C) * 2.0,
    "reshape into one dimension": lambda a, b: _reshaped(a * b, Dim("x", 630)),
    "reshape from one dimension": lambda a, b: _reshaped(_reshaped(a * b, Dim("x", 630)) * 2.0, X, Y, Dim("w", 18)),
    "merge x and y": lambda a, b: _reshaped(a * b, B, Dim("x", 35), C),
    "merge batch and x": lambda a, b: _reshaped(a * b, Dim("x", 21), Y, C),
    "merge x and y into y": lambda a, b: _reshaped(a * b, B, Dim("y", 35), C),
    "divide channels": lambda a, b: _reshaped(a * b, B, X, Y, Dim("channels", 2), Dim("w", 3)),
    "divide channels, the second split": lambda a, b: _reshaped(a * b, B, X, Y, Dim("w", 2), Dim("channels", 3)),
    "move all": lambda a, b: _reshaped(a * b, Dim("y", 21), Dim("x", 10), Dim("w", 3)),
    "from batch": lambda a, b: _reshaped(over(a * b, B, Y), Dim("x", 15)),
    "from x to batch": lambda a, b: _reshaped(over(a * b, X, Y), Dim("batch", 5), Dim("w", 7)),
    "insert a dimension": lambda a, b: _reshaped(a * b, B, X, Dim("one", 1), Y, C),
    "insert a dimension before x": lambda a, b: _reshaped(a * b, B, Dim("one", 1), X, Y, C) * over(a, X),
    "to even slices": lambda a, b: _reshaped(over(a * b, Y, C), Dim("x", 6), Dim("w", 5)),
    "from even slices": lambda a, b: _reshaped(_reshaped(over(a * b, Y, C), Dim("x", 6), Dim("w", 5)), Y, C),
    "of a sum": lambda a, b: _reshaped(over(a, X), Dim("y", 7)) * over(b, C),
}
LAYERS = {
    "dense": lambda a, b: mtf.layers.dense(
        *(mtf.stop_gradient(a) * b, Dim("out", 3)),
        reduced_dims=[Y, C],
        name="dense",
        variable_dtype=mtf.VariableDType(a.dtype),
    ),
    "layer_norm over x": lambda a, b: mtf.layers.layer_norm(a * b, X, name="norm_x"),
    "softmax cross entropy over x": lambda a, b: mtf.layers.softmax_cross_entropy_with_logits(a, mtf.softmax(b, X), X),
    "sigmoid cross entropy": lambda a, b: mtf.layers.sigmoid_cross_entropy_with_logits(a, mtf.sigmoid(b)),
    "attention": lambda a, b: mtf.layers.dot_product_attention(
        over(a, B, X, C), over(b, B, Y, C), over(a * b, B, Y, C), None, False, dropout_broadcast_dims=[]
    ),
    "instance_norm": lambda a, b: mi.ops.instance_norm(a * b, 1e-3, "instance"),
    "group_norm of 2 groups": lambda a, b: mi.ops.group_norm(a * b, 2, 1e-3, "group2"),
    "group_norm of 3 groups": lambda a, b: mi.ops.group_norm(a * b, 3, 1e-3, "group3"),
    "batch_norm": lambda a, b: mi.ops.batch_norm(a * b, True, 0.9, 1e-3, "batch"),
    "gather_slices": lambda a, b: mi.ops.gather_slices(a * b, ["x", "y"]) * 2.0,
    "scatter_slices": lambda a, b: mi.ops.scatter_slices(mtf.sin(mi.ops.gather_slices(a * b, ["x", "y"])), ["y", "x"]),
    "recompute": lambda a, b: mi.ops.recompute(lambda u: over(mtf.exp(u), X, C) * u, a) * b,
    "over_batch": lambda a, b: mi.ops.over_batch(mtf.reduce_sum(a * b)) * b,
    "leaky_relu": lambda a, b: mi.ops.leaky_relu(a, 0.1) * b,
}
OPS = {**ELEMENTWISE, **REDUCTIONS, **EINSUMS, **MOVES, **RESHAPES, **LAYERS}
