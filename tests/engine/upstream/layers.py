"""The public functions of `mtf.layers`, as functions of a tensor `[batch, x, y, channels]`.

They are compositions of variables and of the functions in `functions.py`. Those whose reference is short are compared
with TensorFlow, all others with one processor.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
Dim, Shape = mtf.Dimension, mtf.Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A public function of `mtf.layers`.

    Attributes:
      name: its name in `mtf.layers`, with details in parentheses.
      fn: the function of an `mtf.Tensor`.
      reference: the same function of a TensorFlow tensor, and of the variables as a dict; None if there is none.
      refused: the setups in which it is refused.
      instead: what the message names instead.
      twice: whether it is differentiated twice.
    """

    name: str
    fn: Callable
    reference: Callable | None = None
    refused: tuple[str, ...] = ()
    instead: str = ""
    twice: bool = True

    def __str__(self):
        return self.name

    @property
    def public_name(self):
        """The name in `mtf.layers`."""
        return self.name.partition(" (")[0]


def _dims(t):
    return t.shape.dims


def _dtype(t):
    return mtf.VariableDType(t.dtype, t.dtype, t.dtype)


def _line(t, *names):
    """Returns the sum over all dimensions but those at some places, under other names."""
    kept = [_dims(t)[place] for place, _ in names]
    y = mtf.reduce_sum(t, output_shape=kept) * 0.1
    for dim, (_, name) in zip(kept, names):
        y = mtf.rename_dimension(y, dim.name, name) if dim.name != name else y
    return y


def _sequence(t):
    """Returns `[batch, length, io]`, of which the length is the dimension x under another name."""
    return mtf.rename_dimension(
        mtf.rename_dimension(mtf.reduce_sum(t, reduced_dim=_dims(t)[2]) * 0.1, "x", "length"), "channels", "io"
    )


def _attention(t):
    q = _line(t, (0, "batch"), (1, "x"), (3, "channels"))
    k = mtf.rename_dimension(mtf.sin(q), "x", "memory")
    return mtf.layers.dot_product_attention(q, k, mtf.rename_dimension(mtf.cos(q), "x", "memory"), None, False)


def _tf_attention(v, variables):
    q = tf.reduce_sum(v, 2) * 0.1
    weights = tf.nn.softmax(tf.einsum("bxc,bmc->bxm", q, tf.sin(q)), -1)
    return tf.einsum("bxm,bmc->bxc", weights, tf.cos(q))


def _reversible(t):
    outputs = mtf.layers.reversible_half_residual_and_swap(t, None, t * 0.5, None, mtf.tanh)
    return mtf.add_n([outputs[0], outputs[2]])


def _tf_reversible(v, variables):
    return v * 0.5 + v + tf.tanh(v * 0.5)


def _conv(name, strides):
    spatial = 3 if "3d" in name else 2

    def fn(t):
        if spatial == 3:
            batch, x, y, channels = _dims(t)
            t = mtf.reshape(t, Shape([Dim("one", 1), batch, x, y, channels]))
        function = getattr(mtf.layers, name)
        return function(t, Dim("out", 3), strides=(strides,) * spatial, variable_dtype=_dtype(t), name=name)

    def reference(v, variables):
        ((_, kernel),) = variables.items()
        v = tf.expand_dims(v, 0) if spatial == 3 else v
        if "transpose" in name:
            sizes = [v.shape[0], *(n * strides for n in v.shape[1:-1]), 3]
            return getattr(tf.nn, f"conv{spatial}d_transpose")(v, kernel, sizes, strides, "SAME")
        return tf.nn.convolution(v, kernel, strides, "SAME")

    return Layer(name, fn, reference, ("2x2", "uneven", "batch"), f"mi.ops.{name}")


def _pool(name):
    function, reference = getattr(mtf.layers, name), getattr(tf.nn, name)
    return Layer(
        name,
        lambda t: function(t, (2, 2)),
        lambda v, variables: reference(v, 2, 2, "VALID"),
        ("uneven", "batch"),
        f"mi.ops.{name}",
        twice=False,
    )


def _blocks(name):
    """A convolution of mesh_tensorflow with halos between blocks that the caller declares."""
    spatial = 3 if "3d" in name else 2

    def fn(t):
        if spatial == 3:
            batch, x, y, channels = _dims(t)
            t = mtf.reshape(t, Shape([Dim("one", 1), batch, x, y, channels]))
        options = {"filter_size": (3,) * spatial, "strides": (1,) * spatial} if "transpose" not in name else {}
        return getattr(mtf.layers, name)(t, Dim("out", 3), variable_dtype=_dtype(t), name=name, **options)

    return Layer(f"{name} (without blocks)", fn, None, ("2x2", "uneven", "batch"), f"mi.ops.conv{spatial}d")


def _embedding(t):
    indices = mtf.mod(mtf.to_int32(mtf.stop_gradient(t) * 3), 5)
    return mtf.layers.embedding(indices, Dim("vocabulary", 5), Dim("depth", 3), _dtype(t), "embedding")


LAYERS = (
    Layer(
        "dense",
        lambda t: mtf.layers.dense(
            t, Dim("out", 3), reduced_dims=_dims(t)[-1:], variable_dtype=_dtype(t), name="dense"
        ),
        lambda v, variables: tf.einsum("bxyc,co->bxyo", v, variables["dense/kernel"]) + variables["dense/bias"],
    ),
    Layer(
        "dense (over x)",
        lambda t: mtf.layers.dense(
            t, Dim("out", 3), reduced_dims=_dims(t)[1:2], variable_dtype=_dtype(t), name="over_x"
        ),
    ),
    Layer(
        "dense_product",
        lambda t: mtf.layers.dense_product(
            t, _dims(t)[-1:], [Dim("out", 3)], ["linear", mtf.tanh], "product", variable_dtype=_dtype(t)
        ),
    ),
    Layer(
        "dense_relu_dense",
        lambda t: mtf.layers.dense_relu_dense(
            t, Dim("hidden", 5), False, master_dtype=t.dtype, slice_dtype=t.dtype, name="block"
        ),
    ),
    Layer(
        "us_einsum",
        lambda t: mtf.layers.us_einsum([t, mtf.sin(t)], output_shape=_dims(t)[:2]),
        lambda v, variables: tf.einsum("bxyc,bxyc->bx", v, tf.sin(v)),
    ),
    Layer("layer_norm", lambda t: mtf.layers.layer_norm(t, _dims(t)[-1], name="last")),
    Layer("layer_norm (over x)", lambda t: mtf.layers.layer_norm(t, _dims(t)[1], name="first")),
    Layer("batch_norm", lambda t: mtf.layers.batch_norm(t, True, 0.9, name="norm")[0]),
    Layer(
        "softmax_cross_entropy_with_logits",
        lambda t: mtf.layers.softmax_cross_entropy_with_logits(t, mtf.softmax(mtf.sin(t), _dims(t)[1]), _dims(t)[1]),
        lambda v, variables: -tf.reduce_sum(tf.nn.softmax(tf.sin(v), 1) * tf.nn.log_softmax(v, 1), 1),
    ),
    Layer(
        "sigmoid_cross_entropy_with_logits",
        lambda t: mtf.layers.sigmoid_cross_entropy_with_logits(t, mtf.sigmoid(mtf.sin(t))),
        lambda v, variables: tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(tf.sin(v)), v),
    ),
    Layer(
        "weights_nonzero",
        lambda t: mtf.layers.weights_nonzero(mtf.to_int32(t), dtype=t.dtype),
        lambda v, variables: tf.cast(tf.cast(v, tf.int32) != 0, v.dtype),
    ),
    Layer(
        "compress_mean",
        lambda t: mtf.layers.compress_mean(t, _dims(t)[1], 2),
        lambda v, variables: tf.reduce_mean(tf.reshape(v, [2, 4, 2, *v.shape[2:]]), 2),
    ),
    Layer("clip_activation_gradient", lambda t: mtf.layers.clip_activation_gradient(t, 0.1)),
    Layer("multiplicative_jitter", lambda t: mtf.layers.multiplicative_jitter(t, 0.1)),
    Layer(
        "rename_length_to_memory_length",
        lambda t: mtf.layers.rename_length_to_memory_length(t, "x"),
        lambda v, variables: tf.identity(v),
    ),
    Layer("reversible_half_residual_and_swap", _reversible, _tf_reversible, twice=False),
    Layer("dot_product_attention", _attention, _tf_attention),
    Layer(
        "multihead_attention",
        lambda t: mtf.layers.multihead_attention(
            _sequence(t), None, None, Dim("kv", 3), Dim("heads", 2), False, master_dtype=t.dtype, slice_dtype=t.dtype
        ),
    ),
    Layer(
        "multihead_self_attention_memory_compressed",
        lambda t: mtf.layers.multihead_self_attention_memory_compressed(
            _sequence(t), True, 2, Dim("kv", 3), Dim("heads", 2), False, master_dtype=t.dtype, slice_dtype=t.dtype
        ),
    ),
    Layer(
        "masked_local_attention_1d",
        lambda t: mtf.layers.masked_local_attention_1d(
            _sequence(t), Dim("kv", 3), Dim("heads", 2), False, 4, master_dtype=t.dtype, slice_dtype=t.dtype
        ),
    ),
    Layer("embedding", _embedding),
    Layer(
        "conv1d",
        lambda t: mtf.layers.conv1d(_sequence(t), Dim("out", 3), variable_dtype=_dtype(t), name="conv1d"),
    ),
    _conv("conv2d", 1),
    _conv("conv3d", 1),
    _conv("conv2d_transpose", 2),
    _conv("conv3d_transpose", 2),
    *map(_blocks, ["conv2d_with_blocks", "conv3d_with_blocks"]),
    *map(_pool, ["max_pool2d", "avg_pool2d"]),
)
