"""Cases of operations with explicit padding and dilations, compared with `tf.pad` or a slice, and VALID windows."""

import tensorflow as tf

import mtf_imaging as mi
from tests.engine.harness import Case

SIZES = {"x": 12, "y": 8, "z": 6}


def three(value):
    return (value,) * 3 if isinstance(value, int) else value


def pad(x, padding, fill=0):
    """Pads the spatial dimensions; negative numbers crop."""
    crop = [(max(0, -before), n + min(0, after)) for (before, after), n in zip(padding, x.shape[1:-1], strict=True)]
    x = x[(slice(None), *(slice(*ends) for ends in crop))]
    widths = [(0, 0), *((max(0, before), max(0, after)) for before, after in padding), (0, 0)]
    return tf.pad(x, widths, constant_values=tf.cast(fill, x.dtype))


def dilate(f, dilations):
    """Inserts zeros between the taps of a filter, because TensorFlow does not dilate every convolution."""
    for axis, dilation in enumerate(dilations):
        taps = tf.split(f, f.shape[axis], axis)
        zeros = tf.zeros_like(tf.repeat(taps[0], dilation - 1, axis)) if dilation > 1 else None
        spread = [piece for tap in taps for piece in ([tap] if zeros is None else [tap, zeros])]
        f = tf.concat(spread if zeros is None else spread[:-1], axis)
    return f


def _sizes(names):
    return [SIZES[name] for name in names]


def _image(names):
    return ",".join(["batch:2", *(f"{name}:{SIZES[name]}" for name in names), "channels:4"])


def _filter(kernel, channels):
    return ",".join([*(f"f{name}:{taps}" for name, taps in zip("xyz", kernel)), channels])


def pooled(op, x, ksize, strides, padding):
    """Returns the result of a pool, whose means do not include padding; `op` is a name, such as "max_pool3d"."""
    fn = getattr(tf.nn, op)
    if op.startswith("max"):
        return fn(pad(x, padding, x.dtype.min), ksize, strides, "VALID")
    voxels = fn(pad(tf.ones_like(x), padding), ksize, strides, "VALID")
    return fn(pad(x, padding), ksize, strides, "VALID") / voxels


def conv(name, kernel, strides=1, padding=((0, 0),) * 3, dilations=1, groups=1):
    """Returns the case of a convolution over as many dimensions as `padding` has pairs."""
    names = "xyz"[: len(padding)]
    kernel, strides, dilations = (three(value)[: len(names)] for value in (kernel, strides, dilations))
    kind = f"conv{len(names)}d"
    settings, channels = {}, "channels:4,filters:2"
    if groups > 1:
        settings, channels = {"groups": groups}, f"per_group:{4 // groups},filters:4"

    def reference(x, f):
        pairs = zip(tf.split(pad(x, padding), groups, -1), tf.split(dilate(f, dilations), groups, -1), strict=True)
        return tf.concat([tf.nn.convolution(x, f, strides, "VALID") for x, f in pairs], -1)

    return Case(
        f"{kind} {name}",
        lambda x, f: getattr(mi.ops, kind)(x, f, strides, padding, dilations, **settings),
        reference,
        {"x": _image(names), "f": _filter(kernel, channels)},
    )


def conv_transpose(name, kernel, strides, padding="SAME", dilations=1, output_sizes=None):
    """Returns the case of a transposed convolution over as many dimensions as `kernel` has extents."""
    names = "xyz"[: len(kernel)]
    strides, dilations = three(strides)[: len(names)], three(dilations)[: len(names)]
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    each = list(zip(_sizes(names), strides, extents, strict=True))
    if padding == "SAME":
        sizes = output_sizes or [n * s for n, s, _ in each]
        totals = [max(0, (n - 1) * s + extent - size) for size, (n, s, extent) in zip(sizes, each, strict=True)]
        pads = [(total // 2, total - total // 2) for total in totals]
    elif padding == "VALID":
        pads = [(0, 0) for _ in names]
        sizes = output_sizes or [n * s + max(extent - s, 0) for n, s, extent in each]
    else:
        pads = padding
        sizes = output_sizes or [
            (n - 1) * s + extent - sum(pair) for (n, s, extent), pair in zip(each, pads, strict=True)
        ]
    full = [size + before + after for size, (before, after) in zip(sizes, pads, strict=True)]
    op, tf_op = f"conv{len(names)}d_transpose", getattr(tf.nn, f"conv{len(names)}d_transpose")

    def reference(x, f):
        y = tf_op(x, dilate(f, dilations), [2, *full, 2], strides, "VALID")
        return pad(y, [(-before, -after) for before, after in pads])

    return Case(
        f"{op} {name}",
        lambda x, f: getattr(mi.ops, op)(x, f, strides, padding, output_sizes, dilations),
        reference,
        {"x": _image(names), "f": _filter(kernel, "filters:2,channels:4")},
    )


def pool(kind, name, ksize, strides, padding, values=None):
    """Returns the case of a pool over as many dimensions as `padding` has pairs."""
    names = "xyz"[: len(padding)]
    ksize, strides = three(ksize)[: len(names)], three(strides)[: len(names)]
    op = f"{kind}_pool{len(names)}d"

    return Case(
        f"{op} {name}",
        lambda x: getattr(mi.ops, op)(x, ksize, strides, padding),
        lambda x: pooled(op, x, ksize, strides, padding),
        {"x": _image(names)},
        {"x": values} if values else {},
    )


def same(count):
    return ((1, 1),) * count


# A few cases for the fast tests.
CASES = [
    conv("padded, stride 2", 3, 2, ((1, 1), (1, 0), (-1, 2))),
    conv("cropped and dilated", (3, 2, 3), 1, ((-1, 5), (2, -1), (3, -1)), (2, 1, 1)),
    conv_transpose("padded", (3, 3, 3), 2, ((1, 0), (0, 1), (-1, 2))),
    conv_transpose("dilated", (3, 2, 3), (2, 1, 1), "SAME", (2, 3, 1)),
    pool("max", "padded ties", 3, 2, ((1, 1), (1, 0), (-2, 2)), values=3),
    pool("avg", "padded", (3, 2, 4), (2, 1, 1), ((1, 1), (1, 0), (1, 2))),
    conv("of more windows than voxels", (3, 2, 2), 1, ((2, 2), (1, 2), (1, 2))),
    conv("of 2 groups, padded", (3, 2, 3), (2, 1, 1), ((2, 1), (-1, 2), (1, 1)), groups=2),
    conv_transpose("1d, padded and dilated", (3,), 2, ((2, 1),), (2,)),
]
MORE = [
    conv("3^3 as SAME", 3, 1, same(3)),
    conv("7^3 as in ResNet", (7, 7, 3), 2, ((3, 3), (3, 3), (1, 1))),
    conv("causal", 3, 1, ((2, 0),) * 3),
    conv("of the voxels after", 3, 1, ((0, 2), (-1, 3), (1, 1))),
    conv("padding above the kernel", (2, 3, 2), (2, 3, 1), ((5, 6), (8, 5), (4, 3))),
    conv("strides above the kernel", (2, 1, 2), (4, 2, 3), ((3, 3), (1, -1), (2, 2))),
    conv("shifted by more than a stride", 2, 2, ((3, -3), (-2, 2), (5, -5))),
    conv("shifted past a slice", 1, 1, ((7, -7), (-3, 3), (0, 0))),
    conv("dilated and strided", (3, 2, 2), (2, 1, 2), ((2, 1), (3, 0), (2, 2)), (2, 3, 4)),
    conv("2d", (3, 5), (2, 1), ((1, 0), (3, 1))),
    conv("2d depthwise", (3, 2), 1, ((2, 0), (2, -1)), groups=4),
    conv("2d depthwise, dilated and strided", (3, 3), (2, 1), ((4, -1), (1, 3)), (1, 2), groups=4),
    conv("depthwise, cropped", (3, 2, 2), 2, ((-1, 2), (1, 1), (2, -2)), groups=4),
    conv("1d causal", (3,), 1, ((4, 0),), (2,)),
    conv("1d, strides above the kernel", (2,), 3, ((5, -4),)),
    conv_transpose("as SAME", (3, 3, 3), 1, same(3)),
    conv_transpose("as in PyTorch", (4, 4, 4), 2, same(3)),
    conv_transpose("causal", (3, 3, 3), 1, ((2, 0),) * 3),
    conv_transpose("negative", (2, 3, 2), (2, 1, 3), ((-1, -1), (-2, 0), (0, -3))),
    conv_transpose("strides above the kernel", (1, 2, 2), (2, 3, 4), ((-1, 0), (-1, 0), (0, 0))),
    conv_transpose("output sizes", (3, 3, 3), 2, same(3), 1, [24, 16, 12]),
    conv_transpose("dilated, padded", (3, 2, 3), (2, 1, 2), ((2, 1), (1, 2), (3, 0)), (2, 3, 2)),
    conv_transpose("dilated, valid", (2, 2, 3), (2, 1, 1), "VALID", (2, 4, 3)),
    conv_transpose("dilated, odd output sizes", (3, 3, 3), 2, "SAME", (2, 1, 2), [23, 16, 11]),
    conv_transpose("2d", (3, 4), 2, ((1, 0), (1, 1))),
    conv_transpose("2d dilated", (3, 2), (1, 2), "SAME", (2, 3)),
    pool("max", "stride 1, padded by 1", 3, 1, same(3)),
    pool("max", "cropped", 2, 2, ((-2, -2), (1, -1), (-1, 1))),
    pool("max", "shifted", 4, 2, ((3, -1), (-1, 3), (3, 3))),
    pool("max", "2d padded", 3, 2, ((1, 0), (0, 1)), values=3),
    pool("max", "1d padded", 3, 2, ((2, -1),), values=3),
    pool("avg", "stride 1, padded by 1", 3, 1, same(3)),
    pool("avg", "cropped", 2, 2, ((-2, -2), (1, -1), (-1, 1))),
    pool("avg", "shifted", 4, 2, ((3, -1), (-1, 3), (3, 3))),
    pool("avg", "2d padded", 3, 2, ((1, 0), (0, 1))),
    pool("avg", "1d padded", 4, 2, ((-1, 3),)),
]


# Rows of the table of second derivatives: (operation, detail, function, reference, shapes).
_PLANE, _VOLUME = "batch:2,x:8,y:4,channels:4", "batch:2,x:8,y:4,z:4,channels:4"
_PADS, _TRANSPOSED, _POOL = ((2, 0), (-1, 2), (1, -1)), ((1, 0), (1, -1), (0, 0)), ((2, -1), (0, 1))
DIFFERENTIATED = [
    (
        "conv3d",
        "padded",
        lambda x, f: mi.ops.conv3d(x, f, 1, _PADS),
        lambda x, f: tf.nn.convolution(pad(x, _PADS), f, 1, "VALID"),
        {"x": _VOLUME, "f": "fx:3,fy:2,fz:1,channels:4,out:2"},
    ),
    (
        "conv3d_transpose",
        "padded and dilated",
        lambda x, f: mi.ops.conv3d_transpose(x, f, 2, _TRANSPOSED, dilations=(2, 1, 1)),
        lambda x, f: pad(
            tf.nn.conv3d_transpose(x, dilate(f, (2, 1, 1)), [x.shape[0], 17, 8, 7, 2], 2, "VALID"),
            [(-before, -after) for before, after in _TRANSPOSED],
        ),
        {"x": _VOLUME, "f": "fx:2,fy:2,fz:1,out:2,channels:4"},
    ),
    (
        "max_pool2d",
        "padded",
        lambda x: mi.ops.max_pool2d(x, 3, 2, _POOL),
        lambda x: pooled("max_pool2d", x, 3, 2, _POOL),
        {"x": _PLANE},
    ),
    (
        "avg_pool2d",
        "padded",
        lambda x: mi.ops.avg_pool2d(x, 3, 2, _POOL),
        lambda x: pooled("avg_pool2d", x, 3, 2, _POOL),
        {"x": _PLANE},
    ),
]
