"""Activations, layer norm, global pools, pixel shuffles and separable convolutions, with their references."""

import math

import tensorflow as tf

import mtf_imaging as mi
from tests.engine.harness import Case
from tests.engine.ops import padded

X = "batch:2,x:12,y:8,z:6,channels:4"
PLANE = "batch:2,x:12,y:8,channels:4"


def gelu(x, approximate=False):
    """Computes `tf.nn.gelu`, whose constants are float32 also in float64 (2.21)."""
    if approximate:
        return 0.5 * x * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + tf.math.erf(x / math.sqrt(2)))


def layer_norm(x, epsilon=1e-3, scale=1, offset=0):
    """Normalizes without `tf.nn.moments`, whose second derivative is wrong because it treats the mean as a constant."""
    centered = x - tf.reduce_mean(x, -1, keepdims=True)
    return centered * tf.math.rsqrt(tf.reduce_mean(tf.square(centered), -1, keepdims=True) + epsilon) * scale + offset


def space_to_depth(x, blocks):
    """Takes every voxel of a block with strides: `tf.nn.space_to_depth` has blocks of one size, in 2 dimensions."""
    offsets = [()]
    for block in blocks:
        offsets = [(*offset, i) for offset in offsets for i in range(block)]
    parts = [x[(slice(None), *(slice(i, None, b) for i, b in zip(o, blocks, strict=True)))] for o in offsets]
    return tf.concat(parts, -1)


def depth_to_space(x, blocks):
    """Writes the voxels of a block one after the other, with strides."""
    parts = tf.split(x, math.prod(blocks), -1)
    for axis in reversed(range(len(blocks))):
        block = blocks[axis]
        rows = [parts[i : i + block] for i in range(0, len(parts), block)]
        parts = [_interleaved(row, axis + 1) for row in rows]
    return parts[0]


def _interleaved(tensors, axis):
    stacked = tf.stack(tensors, axis + 1)
    shape = list(tensors[0].shape)
    shape[axis] *= len(tensors)
    return tf.reshape(stacked, shape)


def separable_conv3d(x, depthwise, pointwise, strides, padding="SAME"):
    """Convolves each channel on its own, with the m kernels of the channel."""
    per_channel = depthwise.shape[-1] // x.shape[-1]
    parts = [
        tf.nn.convolution(x[..., c : c + 1], depthwise[..., c * per_channel : (c + 1) * per_channel], strides, padding)
        for c in range(x.shape[-1])
    ]
    return tf.nn.convolution(tf.concat(parts, -1), pointwise)


def _tf_separable_conv2d(x, depthwise, pointwise):
    depthwise = tf.reshape(depthwise, [*depthwise.shape[:2], x.shape[-1], -1])
    return tf.nn.separable_conv2d(x, depthwise, pointwise, [1, 2, 2, 1], "SAME")


CASES = [
    Case("relu", mi.ops.relu, tf.nn.relu, {"x": X}),
    Case("gelu", mi.ops.gelu, gelu, {"x": X}),
    Case(
        "gelu approximate",
        lambda x: mi.ops.gelu(x, approximate=True),
        lambda x: gelu(x, approximate=True),
        {"x": X},
    ),
    Case("silu", mi.ops.silu, tf.nn.silu, {"x": X}),
    Case("layer_norm", lambda x: mi.ops.layer_norm(x, 1e-3), layer_norm, {"x": X}),
    Case(
        "global_avg_pool3d",
        lambda x: mi.mtf.cast(mi.ops.global_avg_pool(x), x.dtype),
        lambda x: tf.reduce_mean(x, [1, 2, 3]),
        {"x": X},
    ),
    Case(
        "space_to_depth 2d",
        lambda x: mi.ops.space_to_depth(x, 2),
        lambda x: tf.nn.space_to_depth(x, 2),
        {"x": PLANE},
    ),
    Case(
        "depth_to_space 2d",
        lambda x: mi.ops.depth_to_space(x, 2),
        lambda x: tf.nn.depth_to_space(x, 2),
        {"x": PLANE},
    ),
    Case(
        "space_to_depth 3d",
        lambda x: mi.ops.space_to_depth(x, (3, 1, 2)),
        lambda x: space_to_depth(x, (3, 1, 2)),
        {"x": X},
    ),
    Case(
        "depth_to_space 3d",
        lambda x: mi.ops.depth_to_space(x, (2, 3, 1)),
        lambda x: depth_to_space(x, (2, 3, 1)),
        {"x": X.replace("channels:4", "channels:12")},
    ),
    Case(
        "separable_conv2d",
        lambda x, d, p: mi.ops.separable_conv2d(x, d, p, 2),
        _tf_separable_conv2d,
        {"x": PLANE, "d": "fx:3,fy:2,one:1,channels:8", "p": "px:1,py:1,channels:8,filters:3"},
    ),
    Case(
        "separable_conv3d",
        lambda x, d, p: mi.ops.separable_conv3d(x, d, p),
        lambda x, d, p: separable_conv3d(x, d, p, padded.three(1)),
        {"x": X, "d": "fx:3,fy:2,fz:1,one:1,channels:4", "p": "px:1,py:1,pz:1,channels:4,filters:3"},
    ),
]

# The arguments of the rows of `differentiated.py`.
_LINE, _SMALL, _VOLUME = "batch:2,x:8,channels:4", "batch:2,x:8,y:4,channels:4", "batch:2,x:8,y:4,z:4,channels:4"
DIFFERENTIATED = [
    ("relu", "", mi.ops.relu, tf.nn.relu, {"x": _VOLUME}),
    ("gelu", "", mi.ops.gelu, gelu, {"x": _VOLUME}),
    (
        "gelu",
        "approximate",
        lambda x: mi.ops.gelu(x, approximate=True),
        lambda x: gelu(x, approximate=True),
        {"x": _SMALL},
    ),
    ("silu", "", mi.ops.silu, tf.nn.silu, {"x": _VOLUME}),
    (
        "layer_norm",
        "",
        lambda x: mi.ops.layer_norm(x, 0.1, "norm"),
        lambda x, scale, offset: layer_norm(x, 0.1, scale, offset),
        {"x": _VOLUME},
        {"norm/scale": 4, "norm/offset": 4},
    ),
    ("global_avg_pool", "", mi.ops.global_avg_pool, lambda x: tf.reduce_mean(x, [1, 2, 3]), {"x": _VOLUME}),
    (
        "space_to_depth",
        "",
        lambda x: mi.ops.space_to_depth(x, (4, 2)),
        lambda x: space_to_depth(x, (4, 2)),
        {"x": _SMALL},
    ),
    ("depth_to_space", "", lambda x: mi.ops.depth_to_space(x, 2), lambda x: depth_to_space(x, (2,)), {"x": _LINE}),
    (
        "separable_conv2d",
        "",
        lambda x, d, p: mi.ops.separable_conv2d(x, d, p, 2),
        _tf_separable_conv2d,
        {"x": _SMALL, "d": "fx:3,fy:2,one:1,channels:8", "p": "px:1,py:1,channels:8,out:2"},
    ),
    (
        "separable_conv3d",
        "",
        lambda x, d, p: mi.ops.separable_conv3d(x, d, p),
        lambda x, d, p: separable_conv3d(x, d, p, padded.three(1)),
        {"x": _VOLUME, "d": "fx:3,fy:2,fz:1,one:1,channels:4", "p": "px:1,py:1,pz:1,channels:4,out:2"},
    ),
]
