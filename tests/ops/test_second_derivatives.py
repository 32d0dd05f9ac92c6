"""Second derivatives of all operations of `mi.ops`, including mixed ones, equal those of nested TensorFlow tapes."""

import dataclasses
import functools
import zlib

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.layout import parse_layout, parse_shape
from mtf_imaging.ops.over_batch import SecondPass, in_pass
from tests.exchanges import check_exchanges
from tests.harness import difference
from tests.ops import grouped_convolutions, padded, resizing

mtf = mi.mtf

LAYOUTS = {
    "whole": ("", ""),
    "spatial": ("rows:2,cols:2", "x:rows,y:cols"),
    "channels": ("cores:2,model:2", "batch:cores,channels:model"),
    "filters": ("model:2,filters:2", "channels:model,out:filters"),
}
LINE, PLANE, VOLUME = "batch:2,x:8,channels:4", "batch:2,x:8,y:4,channels:4", "batch:2,x:8,y:4,z:4,channels:4"
KERNELS = {1: "fx:3", 2: "fx:3,fy:2", 3: "fx:3,fy:2,fz:1"}
LOGITS, LABELS = "batch:2,x:8,y:4,z:4,classes:3", "batch:2,x:8,y:4,z:4"
CLASSES = mtf.Dimension("classes", 3)
WEIGHTS = (1, 8, 0.5)
CONSTANTS = ("labels", "mask")


@dataclasses.dataclass(frozen=True)
class Row:
    """An operation to differentiate twice.

    Attributes:
      op: name of the operation in `mi.ops`.
      detail: text that distinguishes this row from other rows of the operation.
      fn: a function of mtf tensors, with the names of `shapes`, that returns an mtf tensor.
      reference: a function of TensorFlow tensors, in the order of `shapes` and `variables`, that returns a tensor.
      shapes: {name: shape} of the inputs. The inputs in `CONSTANTS` have no gradients.
      variables: {variable: number of its values}
    """

    op: str
    detail: str
    fn: object
    reference: object
    shapes: dict
    variables: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        return f"{self.op} {self.detail}".strip()

    def values(self):
        """Returns {name: value} of all inputs and variables."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        shapes = {name: [size for _, size in parse_shape(shape)] for name, shape in self.shapes.items()}
        values = {name: rng.standard_normal(shape) for name, shape in [*shapes.items(), *self.variables.items()]}
        if "labels" in shapes:
            values["labels"] = rng.integers(0, 3, shapes["labels"]).astype(np.int32)
        if "mask" in shapes:
            values["mask"] = _dropout_mask()
        return values


def _image(dims):
    return {1: LINE, 2: PLANE, 3: VOLUME}[dims]


def conv(dims, detail="", strides=1, dilations=1):
    return Row(
        f"conv{dims}d",
        detail,
        lambda x, f: getattr(mi.ops, f"conv{dims}d")(x, f, strides, dilations=dilations),
        lambda x, f: tf.nn.convolution(x, f, strides, "SAME", dilations=dilations),
        {"x": _image(dims), "f": f"{KERNELS[dims]},channels:4,out:2"},
    )


def grouped_conv(dims, groups, strides=1):
    channels = f"per_group:{4 // groups},out:4"
    return Row(
        f"conv{dims}d",
        f"of {groups} groups",
        lambda x, f: getattr(mi.ops, f"conv{dims}d")(x, f, strides, groups=groups),
        lambda x, f: grouped_convolutions.reference(x, f, strides, "SAME", 1, groups),
        {"x": _image(dims), "f": f"fx:3,fy:2,{channels}" if dims == 2 else f"fx:3,fy:2,fz:1,{channels}"},
    )


def conv_transpose(dims):
    def reference(x, f):
        sizes = [2, *(2 * n for n in x.shape[1:-1]), 2]
        return getattr(tf.nn, f"conv{dims}d_transpose")(x, f, sizes, 2)

    return Row(
        f"conv{dims}d_transpose",
        "",
        lambda x, f: getattr(mi.ops, f"conv{dims}d_transpose")(x, f, 2),
        reference,
        {"x": _image(dims), "f": f"{KERNELS[dims]},out:2,channels:4"},
    )


def _tf_pool3d(pool2d, x, size, stride, padding):
    """Pools planes first and then lines, because TensorFlow has no float64 3D pools."""
    n, height, width, depth, channels = x.shape
    x = pool2d(tf.reshape(x, [n, height, width, -1]), size, stride, padding)
    _, height, width, _ = x.shape
    x = pool2d(tf.reshape(x, [n, -1, depth, channels]), [1, size], [1, stride], padding)
    return tf.reshape(x, [n, height, width, -1, channels])


def pool(kind, dims, size, stride, padding):
    op, pool2d = getattr(mi.ops, f"{kind}_pool{dims}d"), getattr(tf.nn, f"{kind}_pool2d")

    def reference(x):
        if dims == 3:
            return _tf_pool3d(pool2d, x, size, stride, padding)
        return getattr(tf.nn, f"{kind}_pool{dims}d")(x, size, stride, padding)

    detail = f"of {size}, stride {stride}"
    return Row(f"{kind}_pool{dims}d", detail, lambda x: op(x, size, stride, padding), reference, {"x": _image(dims)})


def _normal(x, axes):
    """Normalizes without `tf.nn.moments`, whose second derivative is wrong because it treats the mean as a constant."""
    centered = x - tf.reduce_mean(x, axes, keepdims=True)
    return centered * tf.math.rsqrt(tf.reduce_mean(tf.square(centered), axes, keepdims=True) + 1e-3)


def norm(op, detail, fn, axes, groups):
    """Returns the row of a norm. `axes` of `[batch, x, y, z, groups, channels of a group]` share statistics."""

    def reference(x, scale, offset):
        grouped = tf.reshape(x, [*x.shape[:-1], groups, -1])
        return tf.reshape(_normal(grouped, axes), x.shape) * scale + offset

    return Row(op, detail, fn, reference, {"x": VOLUME}, {"norm/scale": 4, "norm/offset": 4})


def resize(dims, sizes, method, align_corners=False):
    return Row(
        f"resize{dims}d",
        f"{method}, corners aligned" if align_corners else method,
        lambda x: getattr(mi.ops, f"resize{dims}d")(x, sizes, method, align_corners),
        lambda x: resizing.resize(x, sizes, method, align_corners),
        {"x": _image(dims)},
    )


def pad(paddings, mode):
    args = paddings, mode
    return Row(
        "pad", mode, lambda x: mi.ops.pad(x, *args), lambda x: resizing.pad(x, *args), {"x": _image(len(paddings))}
    )


@functools.cache
def _dropout_mask():
    """Returns the result of the operation for a tensor of ones."""
    program = mi.Program(lambda x: mi.ops.dropout(x, 0.5, name="dropout"), {"x": (VOLUME, "float64")})
    return program(x=np.ones([size for _, size in parse_shape(VOLUME)])).numpy()


def _tf_cross_entropy(logits, labels):
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return loss * tf.gather(tf.constant(WEIGHTS, logits.dtype), labels)


def _tf_dice(p, t, axes):
    overlap, total = tf.reduce_sum(p * t, axes), tf.reduce_sum(p, axes) + tf.reduce_sum(t, axes)
    return tf.reduce_mean((2 * overlap + 0.1) / (total + 0.1))


def _tf_adaptive_dice(p, labels):
    t, axes = tf.one_hot(labels, 3, dtype=p.dtype), [0, 1, 2, 3]
    dice = (2 * tf.reduce_sum(p * t, axes) + 1e-7) / (tf.reduce_sum(p + t, axes) + 1e-7)
    return 1 - tf.reduce_mean(dice * tf.exp(1 - dice))


def _network(x, f, labels):
    y = mi.ops.instance_norm(mi.ops.conv2d(x, f), 1e-3, name="norm")
    y = mi.ops.max_pool2d(mi.ops.leaky_relu(y, 0.1), 2, 2)
    return mi.ops.sparse_softmax_cross_entropy(y, labels, y.shape.dims[-1], WEIGHTS)


def _tf_network(x, f, labels, scale, offset):
    y = _normal(tf.nn.conv2d(x, f, 1, "SAME"), [1, 2]) * scale + offset
    return _tf_cross_entropy(tf.nn.max_pool2d(tf.nn.leaky_relu(y, 0.1), 2, 2, "VALID"), labels)


NETWORK = (
    {"x": PLANE, "f": "fx:3,fy:2,channels:4,classes:3", "labels": "batch:2,x:4,y:2"},
    {"norm/scale": 3, "norm/offset": 3},
)


def _resharded(x, fn):
    names = ["x", "channels"]
    return mi.ops.scatter_slices(fn(mi.ops.gather_slices(x, names)), names)


ROWS = [
    *(Row(*row) for row in padded.DIFFERENTIATED),
    conv(1),
    conv(2, "with strides", 2),
    conv(3),
    conv(3, "with strides", 2),
    conv(3, "dilated", dilations=2),
    conv_transpose(1),
    grouped_conv(2, 4),
    grouped_conv(3, 2, 2),
    conv_transpose(2),
    conv_transpose(3),
    pool("max", 1, 3, 2, "SAME"),
    pool("max", 2, 2, 2, "VALID"),
    pool("max", 2, 3, 2, "SAME"),
    pool("max", 3, 2, 2, "VALID"),
    pool("max", 3, 3, 1, "VALID"),  # SAME with stride 1 has no second derivative in TensorFlow's graphs (2.21)
    pool("avg", 1, 3, 2, "SAME"),
    pool("avg", 2, 3, 2, "SAME"),
    pool("avg", 3, 2, 2, "VALID"),
    pool("avg", 3, 3, 1, "SAME"),
    norm("batch_norm", "in training", lambda x: mi.ops.batch_norm(x, True, 0.9, 1e-3, "norm"), [0, 1, 2, 3, 5], 4),
    Row(
        "batch_norm",
        "in evaluation",
        lambda x: mi.ops.batch_norm(x, False, epsilon=1e-3, name="norm"),
        lambda x, scale, offset: x / np.sqrt(1.001) * scale + offset,
        {"x": VOLUME},
        {"norm/scale": 4, "norm/offset": 4},
    ),
    norm("instance_norm", "", lambda x: mi.ops.instance_norm(x, 1e-3, "norm"), [1, 2, 3, 5], 4),
    norm("group_norm", "of 2 groups", lambda x: mi.ops.group_norm(x, 2, 1e-3, "norm"), [1, 2, 3, 5], 2),
    Row("leaky_relu", "", lambda x: mi.ops.leaky_relu(x, 0.1), lambda x: tf.nn.leaky_relu(x, 0.1), {"x": VOLUME}),
    Row("leaky_relu", "of slope 0", lambda x: mi.ops.leaky_relu(x, 0), tf.nn.relu, {"x": VOLUME}),
    Row(
        "dropout",
        "",
        lambda x, mask: mi.ops.dropout(x, 0.5, name="dropout"),
        lambda x, mask: x * mask,
        {"x": VOLUME, "mask": VOLUME},
    ),
    Row("softmax", "", lambda x: mi.ops.softmax(x, CLASSES), tf.nn.softmax, {"x": LOGITS}),
    Row(
        "sparse_softmax_cross_entropy",
        "",
        lambda x, labels: mi.ops.sparse_softmax_cross_entropy(x, labels, CLASSES),
        lambda x, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x),
        {"x": LOGITS, "labels": LABELS},
    ),
    Row(
        "sparse_softmax_cross_entropy",
        "with weights",
        lambda x, labels: mi.ops.sparse_softmax_cross_entropy(x, labels, CLASSES, WEIGHTS),
        _tf_cross_entropy,
        {"x": LOGITS, "labels": LABELS},
    ),
    Row(
        "weighted_cross_entropy",
        "",
        lambda x, labels: mi.ops.weighted_cross_entropy(x, labels, CLASSES, WEIGHTS),
        lambda x, labels: tf.reduce_mean(_tf_cross_entropy(x, labels)),
        {"x": LOGITS, "labels": LABELS},
    ),
    Row(
        "dice_loss",
        "",
        lambda p, t: mi.ops.dice_loss(mtf.square(p), mtf.square(t), p.shape.dims[0]),
        lambda p, t: 1 - (_tf_dice(p * p, t * t, [1, 2, 3]) + _tf_dice(p * p, t * t, None)) / 2,
        {"p": LABELS, "t": LABELS},
    ),
    Row(
        "adaptive_dice_loss",
        "",
        lambda p, labels: mi.ops.adaptive_dice_loss(mtf.square(p), labels, CLASSES),
        lambda p, labels: _tf_adaptive_dice(p * p, labels),
        {"p": LOGITS, "labels": LABELS},
    ),
    Row("over_batch", "", lambda x: mi.ops.over_batch(mtf.reduce_sum(x)), tf.reduce_sum, {"x": VOLUME}),
    Row("recompute", "", lambda x, f, labels: mi.ops.recompute(_network, x, f, labels), _tf_network, *NETWORK),
    Row(
        "recompute",
        "within another",
        lambda x, f, labels: mi.ops.recompute(lambda x: mtf.square(mi.ops.recompute(_network, x, f, labels)), x),
        lambda *values: tf.square(_tf_network(*values)),
        *NETWORK,
    ),
    Row("gather_slices", "", lambda x: _resharded(x, mtf.square), tf.square, {"x": VOLUME}),
    Row("scatter_slices", "", lambda x: _resharded(x, lambda x: x * x * x), lambda x: x**3, {"x": VOLUME}),
    resize(1, (12,), "linear"),
    resize(2, (12, 2), "linear"),
    resize(2, (12, 2), "linear", align_corners=True),
    resize(3, (12, 8, 2), "linear"),
    resize(3, (4, 8, 6), "nearest"),
    pad([(5, 1), (0, 2)], "constant"),
    pad([(1, 5), (0, 2), (1, 2)], "reflect"),
]
NOT_DIFFERENTIABLE = {"master_dtype", "slices_per_dimension", "step"}


def test_every_operation_has_a_row():
    assert {row.op for row in ROWS} == set(mi.ops.__all__) - NOT_DIFFERENTIABLE


def operation_classes():
    """Returns the classes of all operations of `mtf_imaging`, with their base classes."""

    def derived(cls):
        return {cls}.union(*(derived(sub) for sub in cls.__subclasses__()))

    return {cls for cls in derived(mtf.Operation) if cls.__module__.startswith("mtf_imaging.")}


def test_every_operation_has_a_gradient():
    """`mtf.gradients` drops every path through an operation that declares that it has no gradient."""
    classes = operation_classes()
    assert len(classes) > 20
    assert [cls.__name__ for cls in classes if cls.has_gradient is not mtf.Operation.has_gradient] == []
    bases = {base for cls in classes for base in cls.__bases__}
    assert [cls.__name__ for cls in classes - bases if cls.gradient is mtf.Operation.gradient] == []


_references = {}


def reference(row):
    """Returns TensorFlow's gradients `g` of `sum(y^3)`, and the gradients of `sum(g^3)`."""
    if str(row) not in _references:
        values = {name: tf.constant(value) for name, value in row.values().items()}
        inputs = [value for name, value in values.items() if name not in CONSTANTS]

        @tf.function(autograph=False)
        def run():
            with tf.GradientTape() as outer:
                outer.watch(inputs)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    total = tf.reduce_sum(row.reference(*values.values()) ** 3)
                first = inner.gradient(total, inputs)
                total = tf.add_n([tf.reduce_sum(g**3) for g in first])
            return *first, *outer.gradient(total, inputs, unconnected_gradients="zero")

        _references[str(row)] = [value.numpy() for value in run()]
    return _references[str(row)]


def two_derivatives(row):
    """Returns the arguments of a `Program` that computes the same derivatives as `reference`."""

    def fn(**tensors):
        y = row.fn(**tensors)
        inputs = [value for name, value in tensors.items() if name not in CONSTANTS]
        variables = {v.name: v.outputs[0] for v in y.graph.trainable_variables}
        inputs += [variables[name] for name in row.variables]
        first = mtf.gradients([mtf.reduce_sum(y * y * y)], inputs)
        second = mtf.gradients([mtf.add_n([mtf.reduce_sum(g * g * g) for g in first])], inputs)
        return *first, *second

    return fn, {name: (shape, "int32" if name == "labels" else "float64") for name, shape in row.shapes.items()}


def derivatives(row, mesh_shape="", layout="", mesh_impl="stacked"):
    """Returns the derivatives from a program, after comparing its exchanges with those that the planner predicts."""
    fn, inputs = two_derivatives(row)
    program, values = mi.Program(fn, inputs, mesh_shape, layout, mesh_impl), row.values()
    check_exchanges(program, fn, inputs)
    for name in row.variables:
        program.variables[name].assign(values[name])
    return [value.numpy() for value in program(**{name: values[name] for name in row.shapes})]


def _table():
    for row in ROWS:
        dims = {dim for shape in row.shapes.values() for dim, _ in parse_shape(shape)}
        for layout, (mesh_shape, rules) in LAYOUTS.items():
            rules_of_row = [f"{dim}:{onto}" for dim, onto in parse_layout(rules) if dim in dims]
            if layout == "filters" and "out" not in dims:
                continue
            for mesh_impl in ("stacked", "placement") if rules_of_row else ("stacked",):
                marks = [] if (layout, mesh_impl) == ("spatial", "stacked") else [pytest.mark.slow]
                name = f"{row}-{layout}-{mesh_impl}"
                yield pytest.param(row, mesh_shape, ",".join(rules_of_row), mesh_impl, id=name, marks=marks)


@pytest.mark.parametrize(("row", "mesh_shape", "layout", "mesh_impl"), list(_table()))
def test_derivatives_equal_tensorflow(row, mesh_shape, layout, mesh_impl):
    values = derivatives(row, mesh_shape, layout, mesh_impl)
    worst = [difference(value, wanted) for value, wanted in zip(values, reference(row), strict=True)]
    assert max(worst) <= 1e-11, f"first and second gradients differ by {worst}"


def test_second_derivatives_through_over_batch_are_refused_in_micro_batches():
    def fn(x, whole):
        with in_pass(SecondPass([whole], 2)):
            y = mtf.square(mi.ops.over_batch(mtf.reduce_sum(x)))
        (first,) = mtf.gradients([y], [x])
        return first if once else mtf.gradients([mtf.reduce_sum(mtf.square(first))], [x])[0]

    inputs, once = {"x": "batch:2", "whole": ""}, True
    np.testing.assert_array_equal(mi.Program(fn, inputs)(x=[1, 2], whole=7), [28, 28])
    once = False
    with pytest.raises(mi.NotSupportedError, match=r"^over_batch: '.*' is a gradient through ") as error:
        mi.Program(fn, inputs)
    assert str(error.value).partition(" is a gradient ")[2] == (
        "through a sum over 2 micro-batches, so it cannot be differentiated again. "
        "Fix: use micro_batches=1, or a loss that is a mean over examples."
    )
    assert error.value.settings == ("micro_batches",)
