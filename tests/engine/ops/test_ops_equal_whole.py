"""All operations under all layouts, and on all meshes: values and gradients equal TensorFlow's on the whole tensor."""

import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.harness import Case, assert_all_pairs, check, pairwise, sample
from tests.engine.ops import building_blocks, padded, resizing

X = "batch:2,x:12,y:8,z:6,channels:4"
SIZES = {"x": 12, "y": 8, "z": 6}
LAYOUTS = [
    ("", ""),
    ("rows:2", "x:rows"),
    ("rows:2,cols:2", "x:rows,y:cols"),
    ("rows:2,cols:2", "batch:rows,z:cols"),
    ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
    ("rows:3,cores:2", "x:rows,batch:cores"),
    ("rows:2,cols:2,planes:2,cores:2,spare:1", "x:rows,y:cols,z:planes,batch:cores"),
    ("spare:2,rows:2,cols:2,planes:3", "x:rows,y:cols,z:planes"),
    ("cores:2,rows:12", "x:rows"),
    ("rows:4,cols:2", "y:rows,x:cols"),
    ("rows:2,model:2", "x:rows,channels:model"),
    ("rows:2,model:2", "y:rows,filters:model"),
    ("model:2,rows:2,filter_model:2", "x:rows,channels:model,filters:filter_model"),
]
# 12, 8 and 6 voxels over 5, 3 or 7 processors: slices of 3, 3, 3, 3, 0; of 3, 3, 2; and of 1, 1, 1, 1, 1, 1, 0.
UNEVEN = [
    ("rows:5,cols:3", "x:rows,y:cols"),
    ("rows:5", "x:rows"),
    ("planes:7,cols:3", "z:planes,y:cols"),
    ("cores:3,model:3", "batch:cores,channels:model"),
    ("rows:5,model:3,cores:2", "x:rows,filters:model,batch:cores"),
]
IMPLS = ["stacked", "placement"]
# These meshes have one device for each processor. The others have at most two devices. If the mesh is larger, each
# device holds several slices, and the test takes half as long.
CPUS = [f"/device:CPU:{number}" for number in range(8)]
NUM_DEVICES = {
    **{"rows:2,cols:2": 4, "rows:2,cols:2,planes:2": 8, "rows:5": 5, "planes:7,cols:3": 7},
    **{"rows:5,cols:3": 3, "cores:3,model:3": 3},
}
# Every operation runs under these layouts on both mesh implementations, and under the others on one of them.
CORE = [("rows:2,cols:2", "x:rows,y:cols"), UNEVEN[0]]
# Fast tests: every operation under these setups.
FAST = [(*CORE[0], "placement"), (*UNEVEN[0], "stacked")]


def _three(value):
    return (value,) * 3 if isinstance(value, int) else value


def conv(name, kernel, strides=1, padding="SAME", dilations=1, shape=X):
    """Returns the case of a convolution.

    `tf.nn.convolution` dilates with space-to-batch, which supports every dtype.
    """
    kernel, steps, spread = _three(kernel), _three(strides), _three(dilations)
    return Case(
        f"conv3d {name}",
        lambda x, f: mi.ops.conv3d(x, f, strides, padding, dilations),
        # TensorFlow's SAME is wrong in float64 for strides above the kernel. VALID is equivalent, because these windows
        # do not extend beyond the border.
        lambda x, f: tf.nn.convolution(x, f, steps, "VALID" if steps > kernel else padding, dilations=spread),
        {"x": shape, "f": "fx:{},fy:{},fz:{},channels:4,filters:2".format(*kernel)},
    )


def conv_transpose(name, kernel, strides, padding="SAME", output_sizes=None):
    kernel, steps = _three(kernel), _three(strides)
    grow = [
        n * s + (max(k - s, 0) if padding == "VALID" else 0)
        for n, k, s in zip(SIZES.values(), kernel, steps, strict=True)
    ]
    sizes = list(output_sizes or grow)
    return Case(
        f"conv3d_transpose {name}",
        lambda x, f: mi.ops.conv3d_transpose(x, f, strides, padding, output_sizes),
        lambda x, f: tf.nn.conv3d_transpose(x, f, [2, *sizes, 2], steps, padding),
        {"x": X, "f": "fx:{},fy:{},fz:{},filters:2,channels:4".format(*kernel)},
    )


def pool(kind, name, ksize, strides, padding="VALID", values=None):
    op = {"max": mi.ops.max_pool3d, "avg": mi.ops.avg_pool3d}[kind]
    tf_op = {"max": tf.nn.max_pool3d, "avg": tf.nn.avg_pool3d}[kind]
    return Case(
        f"{kind}_pool3d {name}",
        lambda x: op(x, ksize, strides, padding),
        lambda x: tf_op(x, ksize, strides, padding),
        {"x": X},
        {"x": values} if values else {},
    )


def resize(name, sizes, method="linear", shape=X):
    return Case(
        f"resize3d {name}",
        lambda x: mi.ops.resize3d(x, sizes, method),
        lambda x: resizing.resize(x, sizes, method),
        {"x": shape},
    )


def _tf_resize2d(method):
    # The linear method returns float32 for every dtype.
    return lambda x: tf.cast(tf.image.resize(x, [18, 4], method, antialias=False), x.dtype)


def two_dimensional():
    x = "batch:2,x:12,y:8,channels:4"
    return [
        Case(
            "conv2d",
            lambda x, f: mi.ops.conv2d(x, f, (2, 1), name="stem"),
            lambda x, f: tf.nn.conv2d(x, f, (2, 1), "SAME"),
            {"x": x, "f": "fx:3,fy:5,channels:4,filters:2"},
        ),
        Case(
            "conv2d 1^2, stride 2",
            lambda x, f: mi.ops.conv2d(x, f, 2),
            lambda x, f: tf.nn.conv2d(x[:, ::2, ::2], f, 1, "SAME"),
            {"x": x, "f": "fx:1,fy:1,channels:4,filters:2"},
        ),
        Case(
            "conv2d_transpose",
            lambda x, f: mi.ops.conv2d_transpose(x, f, 2),
            lambda x, f: tf.nn.conv2d_transpose(x, f, [2, 24, 16, 2], 2, "SAME"),
            {"x": x, "f": "fx:3,fy:2,filters:2,channels:4"},
        ),
        Case(
            "max_pool2d overlapping",
            lambda x: mi.ops.max_pool2d(x, 3, 2, "SAME"),
            lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
            {"x": x},
        ),
        Case(
            "avg_pool2d overlapping",
            lambda x: mi.ops.avg_pool2d(x, 3, 2, "SAME"),
            lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"),
            {"x": x},
        ),
        Case(
            "resize2d linear",
            lambda x: mi.ops.resize2d(x, (18, 4)),
            _tf_resize2d("bilinear"),
            {"x": x},
        ),
        Case(
            "resize2d nearest",
            lambda x: mi.ops.resize2d(x, (18, 4), "nearest"),
            _tf_resize2d("nearest"),
            {"x": x},
        ),
    ]


def _tf_batch_norm(x):
    mean, variance = tf.nn.moments(x, [0, 1, 2, 3])
    return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)


def _tf_group_norm(x, groups, epsilon=1e-3):
    grouped = tf.reshape(x, [*x.shape[:-1], groups, x.shape[-1] // groups])
    mean, variance = tf.nn.moments(grouped, [1, 2, 3, 5], keepdims=True)
    return tf.reshape(tf.nn.batch_normalization(grouped, mean, variance, None, None, epsilon), x.shape)


def _tf_masked_cross_entropy(logits, labels, mask):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(tf.boolean_mask(losses * tf.gather(tf.constant([1, 8, 16, 2], logits.dtype), labels), mask))


def _tf_masked_adaptive_dice(p, labels, mask):
    return _tf_adaptive_dice_loss(tf.boolean_mask(p, mask), tf.boolean_mask(labels, mask))


def _tf_dice_loss(p, labels):
    overlap = tf.reduce_sum(p * labels, [1, 2, 3])
    total = tf.reduce_sum(p, [1, 2, 3]) + tf.reduce_sum(labels, [1, 2, 3])
    whole = (2 * tf.reduce_sum(overlap) + 0.1) / (tf.reduce_sum(total) + 0.1)
    return 1 - (tf.reduce_mean((2 * overlap + 0.1) / (total + 0.1)) + whole) / 2


def _tf_dice_over(p, labels, axes):
    overlap, total = tf.reduce_sum(p * labels, axes), tf.reduce_sum(p, axes) + tf.reduce_sum(labels, axes)
    return 1 - tf.reduce_mean((2 * overlap + 0.1) / (total + 0.1))


def _tf_adaptive_dice_loss(p, labels):
    one_hot = tf.one_hot(labels, 4, dtype=p.dtype)
    dice = [
        (2 * tf.reduce_sum(p[..., c] * one_hot[..., c]) + 1e-7) / (tf.reduce_sum(p[..., c] + one_hot[..., c]) + 1e-7)
        for c in range(4)
    ]
    return 1 - tf.add_n([tf.exp(-d) * d for d in dice]) / (4 * tf.exp(tf.constant(-1, p.dtype)))


def _activated_conv(x, f, bias):
    y = mi.mtf.rename_dimension(mi.ops.conv3d(x, f), "filters", "channels")
    return mi.ops.leaky_relu(mi.ops.add_bias(y, bias), 0.1)


def _tf_activated_conv(x, f, bias):
    return tf.nn.leaky_relu(tf.nn.bias_add(tf.nn.convolution(x, f, padding="SAME"), bias), 0.1)


def _tf_weighted_cross_entropy(logits, labels):
    weights = tf.gather(tf.constant([1, 8, 16, 2], logits.dtype), labels)
    return tf.reduce_mean(weights * tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


LOGITS, LABELS = "batch:2,x:12,y:8,z:6,classes:4", "batch:2,x:12,y:8,z:6"
CLASSES = mi.mtf.Dimension("classes", 4)
OTHERS = [
    Case("batch_norm", lambda x: mi.ops.batch_norm(x, True, epsilon=1e-3), _tf_batch_norm, {"x": X}),
    Case("instance_norm", lambda x: mi.ops.instance_norm(x, 1e-3), lambda x: _tf_group_norm(x, 4), {"x": X}),
    Case("group_norm", lambda x: mi.ops.group_norm(x, 2, 1e-3), lambda x: _tf_group_norm(x, 2), {"x": X}),
    Case("leaky_relu", lambda x: mi.ops.leaky_relu(x, 0.1), lambda x: tf.nn.leaky_relu(x, 0.1), {"x": X}),
    Case("add_bias", mi.ops.add_bias, tf.nn.bias_add, {"x": X, "bias": "channels:4"}),
    Case(
        "conv, bias, leaky_relu",
        _activated_conv,
        _tf_activated_conv,
        {"x": X, "f": "fx:3,fy:2,fz:1,channels:4,filters:4", "bias": "channels:4"},
    ),
    Case("softmax", lambda x: mi.ops.softmax(x, CLASSES), tf.nn.softmax, {"x": LOGITS}),
    Case(
        "weighted_cross_entropy",
        lambda x, labels: mi.ops.weighted_cross_entropy(x, labels, CLASSES, (1, 8, 16, 2)),
        _tf_weighted_cross_entropy,
        {"x": LOGITS, "labels": LABELS},
        integers={"labels": 4},
        labels=("labels",),
    ),
    Case(
        "dice_loss",
        lambda p, t: mi.ops.dice_loss(mi.mtf.square(p), t, p.shape.dims[0]),
        lambda p, t: _tf_dice_loss(p * p, t),
        {"p": LABELS, "t": LABELS},
        integers={"t": 2},
    ),
    Case(
        "dice_loss of each case",
        lambda p, t: mi.ops.dice_loss(mi.mtf.square(p), t, p.shape.dims[0], over="case"),
        lambda p, t: _tf_dice_over(p * p, t, [1, 2, 3]),
        {"p": LABELS, "t": LABELS},
        integers={"t": 2},
    ),
    Case(
        "dice_loss of the batch",
        lambda p, t: mi.ops.dice_loss(mi.mtf.square(p), t, p.shape.dims[0], over="batch"),
        lambda p, t: _tf_dice_over(p * p, t, None),
        {"p": LABELS, "t": LABELS},
        integers={"t": 2},
    ),
    Case(
        "adaptive_dice_loss",
        lambda p, labels: mi.ops.adaptive_dice_loss(mi.mtf.square(p), labels, CLASSES),
        lambda p, labels: _tf_adaptive_dice_loss(p * p, labels),
        {"p": LOGITS, "labels": LABELS},
        integers={"labels": 4},
        labels=("labels",),
    ),
    Case(
        "sigmoid_cross_entropy",
        lambda x, t: mi.ops.sigmoid_cross_entropy(x, t),
        lambda x, t: tf.nn.sigmoid_cross_entropy_with_logits(t, x),
        {"x": LOGITS, "t": LOGITS},
        integers={"t": 2},
    ),
    Case(
        "masked_mean",
        lambda x, mask: mi.ops.masked_mean(mi.mtf.square(x), mi.mtf.cast(mask, x.dtype)),
        lambda x, mask: tf.reduce_mean(tf.boolean_mask(x * x, mask)),
        {"x": LABELS, "mask": LABELS},
        integers={"mask": 2},
        labels=("mask",),
    ),
    Case(
        "weighted_cross_entropy within a mask",
        lambda x, labels, mask: mi.ops.weighted_cross_entropy(
            *(x, labels, CLASSES, (1, 8, 16, 2)), mi.mtf.cast(mask, x.dtype)
        ),
        _tf_masked_cross_entropy,
        {"x": LOGITS, "labels": LABELS, "mask": LABELS},
        integers={"labels": 4, "mask": 2},
        labels=("labels", "mask"),
    ),
    Case(
        "dice_loss within a mask",
        lambda p, t, mask: mi.ops.dice_loss(mi.mtf.square(p), t, p.shape.dims[0], mask=mi.mtf.cast(mask, p.dtype)),
        lambda p, t, mask: _tf_dice_loss(p * p * tf.cast(mask, p.dtype), t * tf.cast(mask, p.dtype)),
        {"p": LABELS, "t": LABELS, "mask": LABELS},
        integers={"t": 2, "mask": 2},
        labels=("mask",),
    ),
    Case(
        "adaptive_dice_loss within a mask",
        lambda p, labels, mask: mi.ops.adaptive_dice_loss(
            mi.mtf.square(p), labels, CLASSES, mask=mi.mtf.cast(mask, p.dtype)
        ),
        lambda p, labels, mask: _tf_masked_adaptive_dice(p * p, labels, mask),
        {"p": LOGITS, "labels": LABELS, "mask": LABELS},
        integers={"labels": 4, "mask": 2},
        labels=("labels", "mask"),
    ),
]
CONVS = [
    conv("3^3", 3),
    conv("1^3", 1),
    conv("even kernel", (2, 4, 2)),
    conv("anisotropic kernel", (5, 3, 1)),
    conv("stride 2", 3, 2),
    conv("strides 2, 1, 3", 3, (2, 1, 3)),
    conv("stride above kernel", (1, 2, 1), (3, 4, 2)),
    conv("dilation 2", 3, 1, "SAME", 2),
    conv("dilations 2, 1, 3", (2, 3, 3), 1, "SAME", (2, 1, 3)),
    conv("halo of several slices", 7),
    conv("valid", 3, 1, "VALID"),
    conv("valid, stride 2", (3, 2, 2), 2, "VALID"),
    conv("valid, dilated", (3, 2, 2), 1, "VALID", (1, 4, 3)),
]
TRANSPOSED = [
    conv_transpose("2^3 stride 2", 2, 2),
    conv_transpose("3^3 stride 2", 3, 2),
    conv_transpose("3^3 stride 1", 3, 1),
    conv_transpose("kernel below stride", (1, 2, 2), (2, 3, 2)),
    conv_transpose("valid", (3, 2, 4), (1, 2, 2), "VALID"),
    conv_transpose("odd output sizes", 3, 2, "SAME", [23, 16, 11]),
]
POOLS = [
    pool("max", "2^3 stride 2", 2, 2),
    pool("max", "overlapping", 3, 2, "SAME"),
    pool("max", "stride 1", 3, 1, "SAME"),
    pool("max", "ties", 2, 2, values=2),
    pool("max", "overlapping ties", 3, 2, "SAME", values=3),
    pool("avg", "2^3 stride 2", 2, 2),
    pool("avg", "overlapping", 3, 2, "SAME"),
    pool("avg", "stride 1", (5, 3, 2), 1, "SAME"),
]
RESIZES = [
    resize("twice", (24, 16, 12)),
    resize("half", (6, 4, 3)),
    resize("other ratios", (36, 8, 4)),
    resize("to one voxel a slice", (2, 2, 2)),
    resize("nearest", (8, 20, 2), "nearest"),
    resize("repeat", (23, 7, 12), "repeat"),
]
CASES = CONVS + TRANSPOSED + POOLS + RESIZES + two_dimensional() + OTHERS + building_blocks.CASES


def product(cases, layouts=LAYOUTS + UNEVEN):
    """Returns all rows (case, (mesh shape, layout), mesh implementation)."""
    return [
        (case, (mesh, layout), impl)
        for case in cases
        for mesh, layout in layouts
        for impl in (IMPLS if layout else IMPLS[:1])
        if case.allows(layout)
    ]


def thinned(cases, layouts=LAYOUTS + UNEVEN):
    """Returns rows of `product` with all pairs of a case, a layout and a mesh implementation."""
    rest = [row for row in product(cases, layouts) if row[1] not in CORE]
    return product(cases, [pair for pair in layouts if pair in CORE]) + pairwise(rest)


def _table(cases, layouts=LAYOUTS + UNEVEN):
    return [
        pytest.param(
            *(case, mesh, layout, impl),
            id=f"{case.name}-{mesh}-{layout}-{impl}",
            marks=[] if (mesh, layout, impl) in FAST else [pytest.mark.slow],
        )
        for case, (mesh, layout), impl in thinned(cases, layouts)
    ]


@pytest.mark.parametrize("cases", [CASES, padded.CASES, padded.MORE], ids=["all", "padded", "more padded"])
def test_all_pairs_of_a_case_a_layout_and_a_mesh_implementation_occur(cases):
    rows = [(case, (mesh, layout), impl) for case, mesh, layout, impl in (row.values for row in _table(cases))]
    assert_all_pairs(rows, product(cases))
    assert {case.name for case, (_, layout), _ in rows if layout} == {case.name for case in cases}


@pytest.mark.parametrize(("case", "mesh", "layout", "impl"), _table(CASES) + _table(padded.CASES, LAYOUTS[:4]))
def test_equals_the_whole(case, mesh, layout, impl):
    check(case, "float32", mesh, layout, impl, CPUS[: NUM_DEVICES.get(mesh, 2)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "mesh", "layout", "impl"),
    sample(_table(padded.CASES, LAYOUTS[4:] + UNEVEN) + _table(padded.MORE), 1 / 4),
)
def test_explicit_padding_equals_the_whole(case, mesh, layout, impl):
    check(case, "float32", mesh, layout, impl, CPUS[: NUM_DEVICES.get(mesh, 2)])


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in padded.CASES + padded.MORE if "pool3d" not in c.name], ids=str)
def test_explicit_padding_in_float64(case):
    mesh, layout = next(pair for pair in UNEVEN + LAYOUTS[1:] if case.allows(pair[1]))
    check(case, "float64", mesh, layout, "stacked")


@pytest.mark.parametrize("impl", IMPLS)
def test_means_at_the_borders_of_two_dimensions(impl):
    """Rescales means only along x and z. TensorFlow cannot broadcast [2, 1, 6, 1, 6, 1] to a shard of volumes."""
    check(pool("avg", "along x and z", (5, 1, 2), 1, "SAME"), "float32", "rows:2", "x:rows", impl, CPUS[:2])


# TensorFlow has no float64 kernels for these operations on the CPU, or computes in float32.
_NO_FLOAT64 = ("max_pool3d", "avg_pool3d", "resize2d linear")


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize("case", [c for c in CASES if not c.name.startswith(_NO_FLOAT64)], ids=str)
def test_float64(case):
    mesh, layout = next(pair for pair in UNEVEN + LAYOUTS[1:] if case.allows(pair[1]))
    check(case, "float64", mesh, layout, "stacked")


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize(
    "case",
    [
        *(CONVS[0], CONVS[4], TRANSPOSED[0], POOLS[0], POOLS[1], POOLS[6], RESIZES[0], RESIZES[-1], *OTHERS[:3]),
        *building_blocks.CASES[1:],
        *(padded.CASES[0], padded.CASES[3], padded.CASES[5]),
    ],
    ids=str,
)
@pytest.mark.parametrize("impl", IMPLS)
def test_bfloat16(case, impl):
    check(case, "bfloat16", "rows:5,cols:3" if impl == "stacked" else "rows:2,cols:2", "x:rows,y:cols", impl)
