"""A small program for each row of the tables in docs/reference/operations.md, by the first cell of the row.

A program takes `x`, Tensor[batch, height, width, channels] float64, and returns a tensor or a tuple of them. Dimensions
that `x` lacks are not split.
"""

import tensorflow as tf

import mtf_imaging as mi

mtf, ops, layers = mi.mtf, mi.ops, mi.layers
SHAPE = "batch:2,height:4,width:6,channels:4"


def _dim(name, size):
    return mtf.Dimension(name, size)


def _weights(x, name, *sizes):
    """Returns a variable whose dimensions are given by size, or as a dimension."""
    dims = [size if isinstance(size, mtf.Dimension) else _dim(f"{name}_{at}", size) for at, size in enumerate(sizes)]
    return mtf.get_variable(x.mesh, name, mtf.Shape(dims), dtype=x.dtype, initializer=tf.random_normal_initializer())


def _channels(x):
    return x.shape.dims[-1]


def _labels(x):
    """Returns the class of each voxel, Tensor[batch, height, width]."""
    return mtf.cast(mtf.greater(mtf.reduce_sum(x, reduced_dim=_channels(x)), 0), tf.int32)


def _classes(x):
    """Returns logits whose classes are not split."""
    return mtf.rename_dimension(layers.Conv(3, 1, name="logits")(x), "channels", "classes")


def _spatial(x):
    return mtf.Shape([x.shape.dims[0], x.shape.dims[-1]])


def _attention(x):
    query = layers.Dense(4, name="query")(x)
    memory = mtf.rename_dimension(layers.Dense(4, name="keys")(x), "width", "memory")
    scores = mtf.einsum([query, memory], output_shape=mtf.Shape([*x.shape.dims[:3], memory.shape.dims[2]]))
    return mtf.einsum([mtf.softmax(scores, memory.shape.dims[2]), memory], output_shape=x.shape)


def _loop(x):
    def body(step, y):
        return step + 1, ops.relu(layers.Conv(4, name="cell")(y))

    return mtf.while_loop(lambda step, y: mtf.less(step, 3), body, [mtf.zeros(x.mesh, [], tf.int32), x])[1]


def _roi_align(x):
    boxes = mtf.constant(x.mesh, 1.0, mtf.Shape([x.shape.dims[0], _dim("boxes", 3), _dim("corners", 4)]), tf.float64)
    boxes = boxes * mtf.import_tf_tensor(x.mesh, tf.constant([0.2, 0.4, 3.1, 4.0], tf.float64), boxes.shape.dims[-1:])
    levels = mtf.zeros(x.mesh, boxes.shape.dims[:2], tf.int32)
    return ops.roi_align([x], boxes, levels, [1], 2)


def _top_k(x):
    scores = mtf.reduce_sum(x, output_shape=mtf.Shape([*x.shape.dims[:1], x.shape.dims[2]]))
    return ops.top_k(scores, [scores], 2)[0]


def _gradient(x):
    return mtf.gradients([mtf.reduce_sum(mtf.square(x))], [x])[0]


def _custom(x):
    return mtf.custom_gradient(lambda x: mtf.abs(x), lambda inputs, outputs, grads: grads, [x])


ROWS = {
    "convolution": layers.Conv(5, 3),
    "dilated convolution": layers.Conv(5, 3, dilation=2),
    "grouped, depthwise convolution": layers.Conv(8, 3, groups=4),
    "separable convolution": layers.SeparableConv(5, 3),
    "transposed convolution": layers.ConvTranspose(5, 2),
    "dense, linear, 1x1 convolution": layers.Dense(5),
    "residual block": layers.Residual(layers.Conv(4, 3, activation="relu"), layers.Conv(4, 3)),
    "attention": _attention,
    "embedding": lambda x: mtf.gather(_weights(x, "table", _dim("words", 3), 5), _labels(x), _dim("words", 3)),
    "recurrence (RNN, ConvLSTM)": _loop,
    "batch norm": layers.Norm("batch", is_training=True),
    "instance norm": layers.Norm("instance"),
    "group norm": layers.Norm("group", groups=2),
    "layer norm": layers.Norm("layer"),
    "dropout": lambda x: ops.dropout(x, 0.5),
    "relu": ops.relu,
    "leaky relu": ops.leaky_relu,
    "gelu, silu (swish)": lambda x: (ops.gelu(x), ops.gelu(x, approximate=True), ops.silu(x)),
    "sigmoid, tanh, softplus, elu, selu": lambda x: (
        *(mtf.sigmoid(x), mtf.tanh(x), mtf.softplus(x), mtf.elu(x), mtf.selu(x)),
    ),
    "softmax over classes": lambda x: ops.softmax(_classes(x), _dim("classes", 3)),
    "softmax over a split dimension": lambda x: (mtf.softmax(x, _channels(x)), mtf.log_softmax(x, x.shape.dims[1])),
    "max pooling": lambda x: ops.max_pool2d(x, 2, 2),
    "average pooling": lambda x: ops.avg_pool2d(x, 2, 2),
    "global average pooling": ops.global_avg_pool,
    "global max pooling": lambda x: mtf.reduce_max(x, output_shape=_spatial(x)),
    "upsampling": layers.UpSample(2, "nearest"),
    "resize": lambda x: ops.resize2d(x, (5, 9), "linear"),
    "padding": lambda x: ops.pad(x, [(1, 2), (0, 1)], "reflect"),
    "crop, slice": lambda x: mtf.slice(x, 1, 2, "height"),
    "pixel shuffle (depth to space)": lambda x: ops.depth_to_space(x, 2),
    "pixel unshuffle (space to depth)": lambda x: ops.space_to_depth(x, 2),
    "roll, shift": lambda x: mtf.shift(x, 1, x.shape.dims[1], wrap=True),
    "concatenate channels": lambda x: layers.concat([x, mtf.square(x)]),
    "concatenate, stack": lambda x: (mtf.concat([x, x], "height"), mtf.stack([x, x], "copies")),
    "split, unstack": lambda x: (*mtf.split(x, x.shape.dims[1], 2), *mtf.unstack(x, x.shape.dims[2])),
    "transpose, permute": lambda x: mtf.transpose(x, mtf.Shape(x.shape.dims[::-1])),
    "reshape, flatten": lambda x: mtf.reshape(x, mtf.Shape([x.shape.dims[0], _dim("rest", 96)])),
    "expand dims, broadcast": lambda x: mtf.broadcast(x, mtf.Shape([_dim("copies", 3), *x.shape.dims])),
    "cast": lambda x: mtf.cast(x * 10, tf.int32),
    "arithmetic, comparisons": lambda x: (x * x - x / 2, mtf.cast(mtf.less(x, 0.5), tf.int32)),
    "exp, log, sqrt, power": lambda x: (mtf.exp(x), mtf.log(mtf.abs(x) + 1), mtf.sqrt(mtf.abs(x)), mtf.abs(x) ** 1.5),
    "where": lambda x: mtf.where(mtf.greater(x, 0), x, mtf.zeros_like(x)),
    "clip": lambda x: mtf.minimum(mtf.maximum(x, -0.5), 0.5),
    "one-hot": lambda x: mtf.one_hot(_labels(x), _dim("classes", 2), dtype=tf.float64),
    "argmax": lambda x: mtf.argmax(x, _channels(x)),
    "top-k of one dimension": lambda x: mtf.top_k(x, x.shape.dims[1], _dim("best", 2))[0],
    "top-k of scores with their rows": _top_k,
    "cumulative sum": lambda x: mtf.cumsum(x, x.shape.dims[1]),
    "gather": lambda x: mtf.gather(
        x, mtf.import_tf_tensor(x.mesh, tf.constant([2, 0]), mtf.Shape([_dim("chosen", 2)])), x.shape.dims[1]
    ),
    "einsum, matmul": lambda x: mtf.einsum([x, _weights(x, "matrix", _channels(x), 5)], reduced_dims=[_channels(x)]),
    "sum, mean": lambda x: (
        mtf.reduce_sum(x, reduced_dim=x.shape.dims[1]),
        mtf.reduce_mean(x, output_shape=_spatial(x)),
    ),
    "max, min, all, any": lambda x: (mtf.reduce_max(x), mtf.reduce_min(x, output_shape=_spatial(x))),
    "logsumexp": lambda x: mtf.reduce_logsumexp(x, _channels(x)),
    "coordinates, range": lambda x: x + mtf.range(x.mesh, x.shape.dims[1], x.dtype),
    "random numbers": lambda x: x + mtf.random_normal(x.mesh, x.shape, dtype=x.dtype),
    "boxes cut out (RoIAlign)": _roi_align,
    "cross entropy": lambda x: ops.weighted_cross_entropy(_classes(x), _labels(x), _dim("classes", 3)),
    "binary cross entropy": lambda x: mtf.reduce_mean(
        ops.sigmoid_cross_entropy(x, mtf.cast(mtf.greater(x, 0), x.dtype))
    ),
    "Dice loss": lambda x: ops.adaptive_dice_loss(
        ops.softmax(_classes(x), _dim("classes", 3)), _labels(x), _dim("classes", 3)
    ),
    "mean squared, absolute error": lambda x: (mtf.reduce_mean(mtf.square(x)), mtf.reduce_mean(mtf.abs(x))),
    "loss within a mask": lambda x: ops.masked_mean(x, mtf.cast(mtf.greater(x, 0), x.dtype)),
    "gradient": _gradient,
    "stop gradient, detach": lambda x: x * mtf.stop_gradient(x),
    "gradient checkpointing, remat": lambda x: ops.recompute(layers.Conv(4, 3, name="block"), x),
    "custom gradient": _custom,
}
