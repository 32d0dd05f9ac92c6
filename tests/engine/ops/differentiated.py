"""Operations to differentiate twice: a row for every operation of `mi.ops`, with its reference in TensorFlow."""

import dataclasses
import functools
import zlib

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from tests.engine.ops import building_blocks, grouped_convolutions, padded, resizing, sampled_boxes

mtf = mi.mtf

LINE, PLANE, VOLUME = "batch:2,x:8,channels:4", "batch:2,x:8,y:4,channels:4", "batch:2,x:8,y:4,z:4,channels:4"
KERNELS = {1: "fx:3", 2: "fx:3,fy:2", 3: "fx:3,fy:2,fz:1"}
LOGITS, LABELS = "batch:2,x:8,y:4,z:4,classes:3", "batch:2,x:8,y:4,z:4"
CLASSES = mtf.Dimension("classes", 3)
WEIGHTS = (1, 8, 0.5)
# The coordinates of an image of 32 x 16 pixels.
BOXES = np.random.default_rng(0).uniform([-4, -4, 8, 4], [24, 12, 36, 20], (2, 5, 4))
LEVELS = np.array([[0, 1, 1, 0, 0], [1, 0, 1, 0, 1]], np.int32)
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
        sizes = [x.shape[0], *(2 * n for n in x.shape[1:-1]), 2]
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


def _boxes(mesh):
    shape = mtf.Shape([mtf.Dimension("batch", 2), mtf.Dimension("rois", 5)])
    boxes = mtf.import_tf_tensor(mesh, tf.constant(BOXES), shape + mtf.Shape([mtf.Dimension("coords", 4)]))
    return boxes, mtf.import_tf_tensor(mesh, tf.constant(LEVELS), shape)


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
    Row("add_bias", "", mi.ops.add_bias, tf.nn.bias_add, {"x": VOLUME, "bias": "channels:4"}),
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
    Row(
        "sigmoid_cross_entropy",
        "",
        lambda x, t: mi.ops.sigmoid_cross_entropy(x, t),
        lambda x, t: tf.nn.sigmoid_cross_entropy_with_logits(t, x),
        {"x": LOGITS, "t": LOGITS},
    ),
    Row(
        "masked_mean",
        "",
        lambda x, labels: mi.ops.masked_mean(mtf.square(x), mtf.cast(mtf.greater(labels, 0), x.dtype)),
        lambda x, labels: tf.reduce_mean(tf.boolean_mask(x * x, labels > 0)),
        {"x": LABELS, "labels": LABELS},
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
    resize(2, (15, 7), "repeat"),
    Row(
        "roi_align",
        "",
        lambda **maps: mi.ops.roi_align(list(maps.values()), *_boxes(maps["x"].mesh), (4, 8), 2),
        lambda *maps: sampled_boxes.reference(maps, BOXES, LEVELS, (4, 8), 2),
        {"x": PLANE, "coarse": "batch:2,x:4,y:2,channels:4"},
    ),
    Row(
        "roi_align",
        "of pixels at their corners",
        lambda x: mi.ops.roi_align([x], *_boxes(x.mesh), (4,), 2, aligned=False),
        lambda x: sampled_boxes.reference([x], BOXES, LEVELS * 0, (4,), 2, aligned=False),
        {"x": PLANE},
    ),
    *(Row(*row) for row in building_blocks.DIFFERENTIATED),
    pad([(5, 1), (0, 2)], "constant"),
    pad([(1, 5), (0, 2), (1, 2)], "reflect"),
]

# Operations that take all dimensions but the first and the last as space, and references of one batch dimension.
_ONE_BATCH_DIMENSION = {
    "instance_norm",
    "group_norm",
    "global_avg_pool",
    "recompute",
    "dice_loss",
    "dropout",
    "roi_align",
}


def with_two_batch_dimensions(row):
    """Returns the row with another batch dimension before the first one, if the operation accepts it."""
    batched = {name for name, shape in row.shapes.items() if shape.startswith("batch:")}
    if row.op in _ONE_BATCH_DIMENSION or not batched:
        return row

    def reference(*values):
        names = [*row.shapes, *row.variables]
        values = [tf.reshape(v, [-1, *v.shape[2:]]) if n in batched else v for n, v in zip(names, values, strict=True)]
        y = row.reference(*values)
        return tf.reshape(y, [3, 2, *y.shape[1:]]) if y.shape[:1] == [6] else y

    shapes = {name: f"cases:3,{shape}" if name in batched else shape for name, shape in row.shapes.items()}
    return dataclasses.replace(row, reference=reference, shapes=shapes)
