"""The public functions of `mtf`, as functions of one tensor, each with its reference in TensorFlow.

A function gets a tensor of any shape: the result of another operation, the producer. Along one dimension, its axis, it
combines or moves elements: "x" if the tensor has this dimension, else the last one.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
Dim, Shape = mtf.Dimension, mtf.Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A public function.

    Attributes:
      name: its name in `mtf`, with details in parentheses.
      fn: the function of an `mtf.Tensor`.
      reference: the same function of a TensorFlow tensor and the position of the axis.
      rank: the smallest number of dimensions of the argument.
      least: the smallest size of the axis.
      refused: a part of the message, if the second derivative is refused.
    """

    name: str
    fn: Callable
    reference: Callable
    rank: int = 0
    least: int = 1
    refused: str = ""

    def __str__(self):
        return self.name

    @property
    def public_name(self):
        """The name in `mtf`."""
        return self.name.partition(" (")[0]

    def accepts(self, shape):
        """Returns whether the function accepts a tensor with some shape, a list of pairs (name, size)."""
        return len(shape) >= self.rank and (not shape or shape[axis_of(shape)][1] >= self.least)


def axis_of(shape):
    """Returns the position of the axis in a shape, a list of pairs (name, size)."""
    names = [name for name, _ in shape]
    return names.index("x") if "x" in names else len(names) - 1


def axis(t):
    """Returns the axis of an `mtf.Tensor`, a dimension."""
    return t.shape.dims[axis_of([(dim.name, dim.size) for dim in t.shape.dims])]


def fresh(t, name, size):
    """Returns a dimension with a name that a tensor does not have; the producer may be the same function."""
    while name in t.shape.dimension_names:
        name += "_"
    return Dim(name, size)


def _replaced(t, *dims):
    """Returns a shape with other dimensions instead of the axis."""
    return Shape([new for dim in t.shape.dims for new in (dims if dim == axis(t) else [dim])])


def other(t):
    """Returns a second operand: different numbers along the axis, or one number if the tensor is a scalar."""
    if not t.shape.dims:
        return mtf.constant(t.mesh, 0.3, dtype=t.dtype)
    return mtf.range(t.mesh, axis(t), t.dtype) * 0.37 - 0.6


def tf_other(v, axis):
    if not v.shape.ndims:
        return tf.constant(0.3, v.dtype)
    numbers = tf.range(v.shape[axis], dtype=tf.float64) * 0.37 - 0.6
    return tf.reshape(tf.cast(numbers, v.dtype), [-1] + [1] * (v.shape.ndims - 1 - axis))


def _float(y, t):
    return mtf.cast(y, t.dtype)


def _unary(name, reference=None, **options):
    function = getattr(mtf, name)
    reference = reference or getattr(tf, name, None) or getattr(tf.math, name, None) or getattr(tf.nn, name)
    return Function(name, lambda t: function(t), lambda v, axis: reference(v), **options)


def _positive(name, reference=None):
    """A function of positive numbers."""
    function, reference = getattr(mtf, name), reference or getattr(tf.math, name)
    return Function(
        f"{name} (of positive numbers)",
        lambda t: function(mtf.square(t) + 0.5),
        lambda v, axis: reference(tf.square(v) + 0.5),
    )


def _binary(name, reference=None):
    function, reference = getattr(mtf, name), reference or getattr(tf.math, name)
    return Function(name, lambda t: function(t, other(t)), lambda v, axis: reference(v, tf_other(v, axis)))


def _comparison(name):
    """A function of two numbers with a boolean result."""
    function, reference = getattr(mtf, name), getattr(tf.math, name)
    return Function(
        name,
        lambda t: _float(function(t, other(t)), t),
        lambda v, axis: tf.cast(reference(v, tf_other(v, axis)), v.dtype),
    )


def _logical(name, number):
    function, reference = getattr(mtf, name), getattr(tf.math, name)
    return Function(
        name,
        lambda t: _float(function(*[mtf.greater(t, 0.1), mtf.less(t, other(t))][:number]), t),
        lambda v, axis: tf.cast(reference(*[v > tf.constant(0.1, v.dtype), v < tf_other(v, axis)][:number]), v.dtype),
    )


def _reduction(name, reference):
    function = getattr(mtf, name)
    return Function(name, lambda t: function(t, reduced_dim=axis(t)), lambda v, axis: reference(v, axis=axis), rank=1)


def _assignment(name):
    """An assignment, which runs after all reads."""

    def fn(t):
        options = {"dtype": t.dtype, "initializer": tf.zeros_initializer(), "trainable": False}
        variable = mtf.get_variable(t.mesh, f"variable_of_{name}", t.shape, **options)
        getattr(mtf, name)(variable.operation, mtf.stop_gradient(t))
        return t + variable

    return Function(name, fn, lambda v, axis: tf.identity(v))


def _doubled(t):
    """The sine of a tensor with twice its gradient, by `mtf.custom_gradient`."""

    def gradient(explicit_inputs, all_inputs, forward_operations, outputs, output_grads):
        del explicit_inputs, forward_operations, outputs
        return [2 * mtf.cos(all_inputs[0]) * output_grads[0]]

    return mtf.custom_gradient(mtf.sin, gradient, [t])


@tf.custom_gradient
def _tf_doubled(v):
    return tf.sin(v), lambda dy: 2 * tf.cos(v) * dy


def _loop(t):
    count = mtf.constant(t.mesh, 0, dtype=tf.int32)
    return mtf.stop_gradient(
        mtf.while_loop(lambda i, u: mtf.less(i, 3), lambda i, u: [i + 1, mtf.sin(u) + u], [count, t])[1]
    )


def _tf_loop(v, axis):
    for _ in range(3):
        v = tf.sin(v) + v
    return tf.stop_gradient(v)


def _cumulative(t):
    return mtf.cumsum(t, axis(t))


def _dynamic(t):
    return mtf.dynamic_shift(t, mtf.constant(t.mesh, 1, dtype=tf.int32), axis(t), True)


def _tf_shifted(v, axis, offset):
    zeros = tf.zeros_like(tf.gather(v, range(abs(offset)), axis=axis))
    kept = tf.gather(v, range(v.shape[axis] - offset) if offset > 0 else range(-offset, v.shape[axis]), axis=axis)
    return tf.concat([zeros, kept] if offset > 0 else [kept, zeros], axis)


def _halo(name):
    """A halo exchange between blocks of one element."""

    def fn(t):
        blocks, size = axis(t), fresh(t, "one", 1)
        reshaped = mtf.reshape(t, _replaced(t, blocks, size))
        return getattr(mtf, name)(reshaped, blocks, size, 1)

    def reference(v, axis):
        before, after = _tf_shifted(v, axis, 1), _tf_shifted(v, axis, -1)
        return tf.stack([before, v, after] if name == "halo_exchange" else [before, v], axis + 1)

    return Function(name, fn, reference, rank=1, least=2)


def _parts(t):
    """`mtf.split` into a first element and the rest, of which the rest is returned."""
    return mtf.split(t, axis(t), [1, axis(t).size - 1])[1]


def _picked(t):
    return mtf.range(t.mesh, fresh(t, "picked", 2), tf.int32)


def _halves(t):
    """Reshapes the axis into pairs, if its size is even, else into single elements."""
    dim = axis(t)
    pair = 2 - dim.size % 2
    return mtf.reshape(t, _replaced(t, Dim(dim.name, dim.size // pair), fresh(t, "pair", pair)))


def _tf_halves(v, axis):
    pair = 2 - v.shape[axis] % 2
    return tf.reshape(v, [*v.shape[:axis], v.shape[axis] // pair, pair, *v.shape[axis + 1 :]])


def _dropped(t):
    """Returns the result of a dropout of positive numbers, and where it is 0, what it would be otherwise."""
    positive = t * t + 1.0
    y = mtf.dropout(positive, is_training=True, rate=0.5)
    return y + 2.0 * positive * _float(mtf.equal(y, 0.0), t)


def _fully(t):
    rest = [dim for dim in t.shape.dims if dim != axis(t)]
    return mtf.einsum([t, other(t)], output_shape=rest)


def _gradient(t):
    return mtf.gradients([mtf.reduce_sum(mtf.sin(t) * t)], [t])[0]


def _variable(t):
    return mtf.get_variable(t.mesh, "factor", Shape([]), dtype=t.dtype, initializer=tf.constant_initializer(1.5))


def _imported(t, fn):
    sizes = [dim.size for dim in t.shape.dims]
    value = tf.constant(np.cos(np.arange(np.prod(sizes, dtype=int))).reshape(sizes), t.dtype)
    return t * fn(t.mesh, value, t.shape)


def _tf_imported(v, axis):
    return v * tf.constant(np.cos(np.arange(np.prod(v.shape, dtype=int))).reshape(v.shape), v.dtype)


ELEMENTWISE = (
    *map(
        _unary, ["abs", "cos", "elu", "exp", "negative", "relu", "selu", "sigmoid", "sign", "sin", "softplus", "square"]
    ),
    *map(_unary, ["stop_gradient", "tanh", "zeros_like", "ones_like"]),
    _unary("identity", tf.identity),
    _unary("mtf_abs", tf.abs),
    _unary("swish", tf.nn.silu),
    _unary("gelu", lambda v: v * (0.5 + 0.5 * tf.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v * v * v)))),
    Function("leaky_relu", lambda t: mtf.leaky_relu(t, 0.25), lambda v, a: tf.nn.leaky_relu(v, 0.25)),
    _unary("squared_relu", lambda v: tf.square(tf.nn.relu(v))),
    *map(_positive, ["log", "reciprocal", "rsqrt", "sqrt"]),
    Function(
        "pow (of positive numbers)", lambda t: mtf.pow(mtf.square(t) + 0.5, 1.7), lambda v, a: (v * v + 0.5) ** 1.7
    ),
    Function("mtf_pow (of positive numbers)", lambda t: mtf.mtf_pow(t * t + 0.5, 3), lambda v, a: (v * v + 0.5) ** 3),
    *map(_binary, ["add", "divide", "maximum", "minimum", "multiply"]),
    _binary("sub", tf.subtract),
    *map(_comparison, ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]),
    *(_logical(name, number) for name, number in [("logical_and", 2), ("logical_not", 1), ("logical_or", 2)]),
    Function(
        "floordiv",
        lambda t: mtf.floordiv(mtf.stop_gradient(t), 0.4),
        lambda v, a: tf.stop_gradient(tf.math.floordiv(v, tf.constant(0.4, v.dtype))),
    ),
    Function(
        "mod",
        lambda t: mtf.mod(mtf.stop_gradient(t), 0.4),
        lambda v, a: tf.stop_gradient(tf.math.floormod(v, tf.constant(0.4, v.dtype))),
    ),
    Function("add_n", lambda t: mtf.add_n([t, t * 2.0, t]), lambda v, a: 4 * v),
    Function(
        "where",
        lambda t: mtf.where(mtf.greater(t, 0.1), t, other(t)),
        lambda v, a: tf.where(v > tf.constant(0.1, v.dtype), v, tf_other(v, a)),
    ),
    Function(
        "cast", lambda t: _float(mtf.cast(t, tf.float32), t), lambda v, a: tf.cast(tf.cast(v, tf.float32), v.dtype)
    ),
    Function("to_float", lambda t: _float(mtf.to_float(t), t), lambda v, a: tf.cast(tf.cast(v, tf.float32), v.dtype)),
    Function(
        "to_bfloat16",
        lambda t: _float(mtf.to_bfloat16(mtf.stop_gradient(t)), t),
        lambda v, a: tf.stop_gradient(tf.cast(tf.cast(v, tf.bfloat16), v.dtype)),
    ),
    Function("to_int32", lambda t: _float(mtf.to_int32(t), t), lambda v, a: tf.cast(tf.cast(v, tf.int32), v.dtype)),
    Function("cwise", lambda t: mtf.cwise(lambda u: tf.sinh(u) * u, [t]), lambda v, a: tf.sinh(v) * v),
    Function(
        "cwise (of two tensors)",
        lambda t: mtf.cwise(lambda u, w: tf.sinh(u) * w, [t, t * 2.0]),
        lambda v, a: tf.sinh(v) * 2 * v,
    ),
    Function("cwise (of the same tensor)", lambda t: mtf.cwise(tf.multiply, [t, t]), lambda v, a: v * v),
    Function(
        "cwise (with its own gradient)",
        lambda t: mtf.cwise(_tf_doubled, [t]),
        lambda v, a: _tf_doubled(v),
    ),
    Function(
        "slicewise",
        lambda t: mtf.slicewise(lambda u: tf.sin(u) * u, [t], splittable_dims=t.shape.dims),
        lambda v, a: tf.sin(v) * v,
    ),
    Function(
        "broadcast",
        lambda t: mtf.broadcast(t, Shape([fresh(t, "copies", 2), *t.shape.dims])),
        lambda v, a: tf.broadcast_to(v, [2, *v.shape]),
    ),
    Function("depend", lambda t: mtf.depend(t, [mtf.sin(t)]), lambda v, a: tf.identity(v)),
    Function(
        "Print",
        lambda t: mtf.Print(t, [mtf.reduce_sum(t)], "sum", output_stream="file:///dev/null"),
        lambda v, a: tf.identity(v),
    ),
    Function("recompute_grad", lambda t: mtf.recompute_grad(lambda u: mtf.sin(u) * u, [t]), lambda v, a: tf.sin(v) * v),
    Function("custom_gradient", _doubled, lambda v, a: _tf_doubled(v)),
    Function("while_loop", _loop, _tf_loop),
    Function("gradients", _gradient, lambda v, a: tf.cos(v) * v + tf.sin(v)),
    Function("constant", lambda t: t * mtf.constant(t.mesh, 1.5, t.shape, t.dtype), lambda v, a: 1.5 * v),
    Function("ones", lambda t: t * mtf.ones(t.mesh, t.shape, t.dtype), lambda v, a: tf.identity(v)),
    Function("zeros", lambda t: t + mtf.zeros(t.mesh, t.shape, t.dtype), lambda v, a: tf.identity(v)),
    Function("get_variable", lambda t: t * _variable(t), lambda v, a: 1.5 * v),
    Function("read_variable", lambda t: t * mtf.read_variable(_variable(t).operation), lambda v, a: 1.5 * v),
    Function(
        "import_fully_replicated",
        lambda t: t * mtf.import_fully_replicated(t.mesh, tf.constant(1.5, t.dtype), Shape([])),
        lambda v, a: 1.5 * v,
    ),
    # What random functions return, without what depends on the numbers.
    Function(
        "random_uniform",
        lambda t: t * _float(mtf.less(mtf.random_uniform(t.mesh, t.shape, dtype=t.dtype), 1.0), t),
        lambda v, a: tf.identity(v),
    ),
    Function(
        "random_normal",
        lambda t: t * _float(mtf.less(mtf.random_normal(t.mesh, t.shape, dtype=t.dtype), 9.0), t),
        lambda v, a: tf.identity(v),
    ),
    Function("dropout (with noise)", _dropped, lambda v, a: 2 * (v * v + 1)),
    Function("import_tf_tensor", lambda t: _imported(t, mtf.import_tf_tensor), _tf_imported),
    Function(
        "dropout",
        lambda t: mtf.dropout(t, is_training=False, rate=0.5),
        lambda v, a: tf.identity(v),
    ),
    Function(
        "binary_op_with_broadcasting",
        lambda t: mtf.binary_op_with_broadcasting(tf.math.squared_difference, mtf.stop_gradient(t), other(t)),
        lambda v, a: tf.stop_gradient(tf.math.squared_difference(v, tf_other(v, a))),
    ),
)
COMBINING = (
    _reduction("reduce_sum", tf.reduce_sum),
    _reduction("reduce_mean", tf.reduce_mean),
    _reduction("reduce_max", tf.reduce_max),
    _reduction("reduce_min", tf.reduce_min),
    _reduction("reduce_logsumexp", tf.reduce_logsumexp),
    _reduction("reduce_first", lambda v, axis: tf.gather(v, 0, axis=axis)),
    Function("reduce_sum (of all)", lambda t: mtf.reduce_sum(t), lambda v, a: tf.reduce_sum(v)),
    Function("reduce_max (of all)", lambda t: mtf.reduce_max(t), lambda v, a: tf.reduce_max(v)),
    Function(
        "reduce_all",
        lambda t: _float(mtf.reduce_all(mtf.greater(t, -0.2), reduced_dim=axis(t)), t),
        lambda v, a: tf.cast(tf.reduce_all(v > tf.constant(-0.2, v.dtype), a), v.dtype),
        rank=1,
    ),
    Function(
        "reduce_any",
        lambda t: _float(mtf.reduce_any(mtf.greater(t, 0.9), reduced_dim=axis(t)), t),
        lambda v, a: tf.cast(tf.reduce_any(v > tf.constant(0.9, v.dtype), a), v.dtype),
        rank=1,
    ),
    Function("softmax", lambda t: mtf.softmax(t, axis(t)), lambda v, a: tf.nn.softmax(v, a), rank=1),
    Function("log_softmax", lambda t: mtf.log_softmax(t, axis(t)), lambda v, a: tf.nn.log_softmax(v, a), rank=1),
    Function(
        "argmax", lambda t: _float(mtf.argmax(t, axis(t)), t), lambda v, a: tf.cast(tf.argmax(v, a), v.dtype), rank=1
    ),
    Function(
        "sample_with_temperature",
        lambda t: _float(mtf.sample_with_temperature(t, axis(t), 0.0), t),
        lambda v, a: tf.cast(tf.argmax(v, a), v.dtype),
        rank=1,
    ),
    Function(
        "top_1", lambda t: mtf.top_1(t, axis(t))[0], lambda v, a: tf.math.top_k(_axis_last(v, a), 1)[0][..., 0], rank=1
    ),
    Function(
        "top_k",
        lambda t: mtf.top_k(t, axis(t), fresh(t, "k", 2))[0],
        lambda v, a: tf.math.top_k(_axis_last(v, a), 2)[0],
        rank=1,
        least=2,
    ),
    Function(
        "nth_largest_element",
        lambda t: mtf.nth_largest_element(t, 1, axis(t)),
        lambda v, a: tf.math.top_k(_axis_last(v, a), 2)[0][..., 1],
        rank=1,
        least=2,
    ),
    Function(
        "nth_smallest_element",
        lambda t: mtf.nth_smallest_element(t, 1, axis(t)),
        lambda v, a: -tf.math.top_k(_axis_last(-v, a), 2)[0][..., 1],
        rank=1,
        least=2,
    ),
    Function("cumsum", _cumulative, lambda v, a: tf.cumsum(v, a), rank=1),
    Function("einsum", _fully, lambda v, a: tf.reduce_sum(v * tf_other(v, a), a), rank=1),
    Function(
        "matmul",
        lambda t: mtf.matmul(t, other(t), output_shape=[dim for dim in t.shape.dims if dim != axis(t)]),
        lambda v, a: tf.reduce_sum(v * tf_other(v, a), a),
        rank=1,
    ),
    Function(
        "gather",
        lambda t: mtf.gather(t, _picked(t), axis(t), output_shape=_replaced(t, fresh(t, "picked", 2))),
        lambda v, a: tf.gather(v, [0, 1], axis=a),
        rank=1,
        least=2,
    ),
    Function(
        "one_hot",
        lambda t: mtf.one_hot(mtf.to_int32(t), fresh(t, "ids", 5), dtype=t.dtype),
        lambda v, a: tf.one_hot(tf.cast(v, tf.int32), 5, dtype=v.dtype),
    ),
    Function(
        "range",
        lambda t: t * mtf.range(t.mesh, axis(t), t.dtype),
        lambda v, a: v * (tf_other(v, a) + 0.6) / 0.37,
        rank=1,
    ),
    Function(
        "mtf_range",
        lambda t: t + mtf.mtf_range(t.mesh, axis(t), t.dtype),
        lambda v, a: v + (tf_other(v, a) + 0.6) / 0.37,
        rank=1,
    ),
    Function(
        "pool_tensor_1d",
        lambda t: mtf.pool_tensor_1d(t, axis(t), pool_size=2 - axis(t).size % 2),
        lambda v, a: tf.reduce_mean(_tf_halves(v, a), a + 1),
        rank=1,
    ),
    Function(
        "stride_tensor_1d",
        lambda t: mtf.stride_tensor_1d(t, axis(t), 2 - axis(t).size % 2),
        lambda v, a: tf.gather(_tf_halves(v, a), 0, axis=a + 1),
        rank=1,
    ),
)


def _axis_last(v, axis):
    return tf.transpose(v, [*(i for i in range(v.shape.ndims) if i != axis), axis])


MOVING = (
    Function("concat", lambda t: mtf.concat([t, t * 2.0], axis(t).name), lambda v, a: tf.concat([v, 2 * v], a), rank=1),
    Function(
        "pad",
        lambda t: mtf.pad(t, [1, 2], axis(t).name),
        lambda v, a: tf.pad(v, [[1, 2] if i == a else [0, 0] for i in range(v.shape.ndims)]),
        rank=1,
    ),
    Function(
        "slice",
        lambda t: mtf.slice(t, 1, axis(t).size - 1, axis(t).name),
        lambda v, a: tf.gather(v, range(1, v.shape[a]), axis=a),
        rank=1,
        least=2,
    ),
    Function(
        "mtf_slice",
        lambda t: mtf.mtf_slice(t, 0, 2, axis(t).name),
        lambda v, a: tf.gather(v, range(2), axis=a),
        rank=1,
        least=2,
    ),
    Function("split", _parts, lambda v, a: tf.gather(v, range(1, v.shape[a]), axis=a), rank=1, least=2),
    Function(
        "stack", lambda t: mtf.stack([t, mtf.sin(t)], fresh(t, "pair", 2).name), lambda v, a: tf.stack([v, tf.sin(v)])
    ),
    Function(
        "unstack", lambda t: mtf.unstack(t, axis(t))[-1], lambda v, a: tf.gather(v, v.shape[a] - 1, axis=a), rank=1
    ),
    Function("shift", lambda t: mtf.shift(t, 1, axis(t), wrap=False), lambda v, a: _tf_shifted(v, a, 1), rank=1),
    Function(
        "shift (with wrap)", lambda t: mtf.shift(t, -1, axis(t), wrap=True), lambda v, a: tf.roll(v, -1, a), rank=1
    ),
    Function("dynamic_shift", _dynamic, lambda v, a: tf.roll(v, 1, a), rank=1),
    _halo("halo_exchange"),
    _halo("left_halo_exchange"),
    Function("reshape", _halves, _tf_halves, rank=1),
    Function(
        "transpose",
        lambda t: mtf.transpose(t, Shape(t.shape.dims[::-1])),
        lambda v, a: tf.transpose(v),
    ),
    Function(
        "rename_dimension",
        lambda t: mtf.rename_dimension(t, axis(t).name, fresh(t, "renamed", 1).name),
        lambda v, a: tf.identity(v),
        rank=1,
    ),
    Function(
        "replace_dimensions",
        lambda t: mtf.replace_dimensions(t, axis(t), fresh(t, "other", axis(t).size)),
        lambda v, a: tf.identity(v),
        rank=1,
    ),
    Function("anonymize", mtf.anonymize, lambda v, a: tf.identity(v)),
)
_ASSIGNMENTS = tuple(map(_assignment, ["assign", "assign_add", "assign_sub"]))
FUNCTIONS = (*ELEMENTWISE, *_ASSIGNMENTS, *COMBINING, *MOVING)
