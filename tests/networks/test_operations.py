"""Every operation and every layer equals TensorFlow: outputs, and gradients by inputs and weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.networks import comparing

layers = keras.layers

# {name: (layer, shape of an input without the batch)}
IMAGE, VOLUME, LINE, VECTOR = (6, 7, 4), (6, 5, 4, 2), (8, 3), (6,)
LAYERS = {
    "conv1d": (lambda: layers.Conv1D(4, 3, padding="same", dilation_rate=2), LINE),
    "conv1d causal": (lambda: layers.Conv1D(4, 3, padding="causal"), LINE),
    "conv1d groups": (lambda: layers.Conv1D(4, 3, groups=2), (8, 4)),
    "conv2d": (lambda: layers.Conv2D(5, 3, strides=2, padding="same"), IMAGE),
    "conv2d valid": (lambda: layers.Conv2D(4, (3, 2), activation="relu"), IMAGE),
    "conv2d groups": (lambda: layers.Conv2D(4, 3, groups=2, padding="same"), IMAGE),
    "conv3d": (lambda: layers.Conv3D(4, 3, padding="same", activation="elu"), VOLUME),
    "conv3d strided": (lambda: layers.Conv3D(4, 3, strides=2, padding="same"), VOLUME),
    "conv3d dilated": (lambda: layers.Conv3D(3, 3, dilation_rate=2, padding="same"), VOLUME),
    "conv3d groups": (lambda: layers.Conv3D(4, 3, groups=2, padding="same"), VOLUME),
    "conv1d transpose": (lambda: layers.Conv1DTranspose(4, 3, strides=2), LINE),
    "conv2d transpose": (lambda: layers.Conv2DTranspose(4, 3, strides=2, padding="same"), IMAGE),
    "conv2d transpose valid": (lambda: layers.Conv2DTranspose(4, 3, strides=2, output_padding=1), IMAGE),
    "conv3d transpose": (lambda: layers.Conv3DTranspose(3, 2, strides=2, padding="same"), VOLUME),
    "depthwise": (lambda: layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2), IMAGE),
    "depthwise strided": (lambda: layers.DepthwiseConv2D(3, strides=2), IMAGE),
    "depthwise 1d": (lambda: layers.DepthwiseConv1D(3, padding="same"), LINE),
    "separable": (lambda: layers.SeparableConv2D(5, 3, padding="same", dilation_rate=2), IMAGE),
    "separable 1d": (lambda: layers.SeparableConv1D(5, 3, padding="same"), LINE),
    "max pool 1d": (lambda: layers.MaxPool1D(2), LINE),
    "max pool 2d": (lambda: layers.MaxPool2D(3, strides=2, padding="same"), IMAGE),
    "max pool 3d": (lambda: layers.MaxPool3D(2), VOLUME),
    "average pool 2d": (lambda: layers.AveragePooling2D(2, padding="same"), IMAGE),
    "average pool 3d": (lambda: layers.AveragePooling3D(2), VOLUME),
    "global average 1d": (lambda: layers.GlobalAveragePooling1D(), LINE),
    "global average 2d": (lambda: layers.GlobalAveragePooling2D(keepdims=True), IMAGE),
    "global average 3d": (lambda: layers.GlobalAveragePooling3D(), VOLUME),
    "global max 2d": (lambda: layers.GlobalMaxPooling2D(), IMAGE),
    "up-sampling 1d": (lambda: layers.UpSampling1D(2), LINE),
    "up-sampling 2d": (lambda: layers.UpSampling2D((2, 3)), IMAGE),
    "up-sampling bilinear": (lambda: layers.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    "up-sampling bicubic": (lambda: layers.UpSampling2D(2, interpolation="bicubic"), IMAGE),
    "up-sampling 3d": (lambda: layers.UpSampling3D((1, 2, 2)), VOLUME),
    "resizing": (lambda: layers.Resizing(9, 4), IMAGE),
    "resizing nearest": (lambda: layers.Resizing(4, 5, interpolation="nearest"), IMAGE),
    "zero padding 2d": (lambda: layers.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    "zero padding 3d": (lambda: layers.ZeroPadding3D(1), VOLUME),
    "cropping 2d": (lambda: layers.Cropping2D(((1, 2), (0, 3))), IMAGE),
    "cropping 3d": (lambda: layers.Cropping3D(1), VOLUME),
    "batch norm": (lambda: layers.BatchNormalization(), VOLUME),
    "layer norm": (lambda: layers.LayerNormalization(), IMAGE),
    "layer norm of axes": (lambda: layers.LayerNormalization(axis=(1, 2, 3)), (6, 4, 3)),
    "group norm": (lambda: layers.GroupNormalization(2), VOLUME),
    "instance norm": (lambda: layers.GroupNormalization(-1), IMAGE),
    "unit norm": (lambda: layers.UnitNormalization(), IMAGE),
    "rms norm": (lambda: layers.RMSNormalization(), IMAGE),
    "spectral norm": (lambda: layers.SpectralNormalization(layers.Dense(4)), VECTOR),
    "normalization": (lambda: layers.Normalization(mean=[0.5, 1, 2, 3], variance=[1, 2, 3, 4]), IMAGE),
    "rescaling": (lambda: layers.Rescaling(1 / 255, -1), IMAGE),
    "prelu": (lambda: layers.PReLU(shared_axes=[1, 2]), IMAGE),
    "prelu of voxels": (lambda: layers.PReLU(), IMAGE),
    "leaky relu": (lambda: layers.LeakyReLU(0.2), IMAGE),
    "relu": (lambda: layers.ReLU(max_value=1, negative_slope=0.1, threshold=0.2), IMAGE),
    "softmax": (lambda: layers.Softmax(), IMAGE),
    "softmax of an axis": (lambda: layers.Softmax(axis=1), IMAGE),
    "dense": (lambda: layers.Dense(4), VECTOR),
    "dense of voxels": (lambda: layers.Dense(5, activation="tanh"), IMAGE),
    "einsum dense": (lambda: layers.EinsumDense("abcd,de->abce", [None, None, 5], bias_axes="e"), (6, 7, 4)),
    "flatten": (lambda: keras.Sequential([layers.Flatten(), layers.Dense(5)]), VOLUME),
    "permute": (lambda: layers.Permute((2, 1, 3)), IMAGE),
    "reshape": (lambda: layers.Reshape((42, 4)), IMAGE),
    "reshape of parts": (lambda: layers.Reshape((3, 2, 7, 2, 2)), IMAGE),
    "repeat": (lambda: layers.RepeatVector(4), VECTOR),
    **{
        f"activation {name}": (lambda name=name: layers.Activation(name), IMAGE)
        for name in (
            *("elu", "selu", "gelu", "silu", "sigmoid", "tanh", "softplus", "softsign", "relu6", "hard_sigmoid"),
            *("hard_silu", "mish", "exponential", "log_softmax", "leaky_relu", "celu", "tanh_shrink", "squareplus"),
        )
    },
}


# TensorFlow computes these only in float32.
FLOAT32 = {"max pool 3d", "average pool 3d", "up-sampling bilinear", "up-sampling bicubic", "resizing"}


def model_of(layer, shape, number=1):
    inputs = [keras.Input(shape, batch_size=2, name=f"input_{i}") for i in range(number)]
    model = keras.Model(inputs, layer(inputs if number > 1 else inputs[0]))
    comparing.randomize(model.variables)
    return model


@pytest.fixture(autouse=True)
def dtype(request):
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    comparing.use_dtype("float32" if name in FLOAT32 else "float64")
    yield
    comparing.use_dtype("float32")


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, layout):
    layer, shape = LAYERS[name]
    comparing.check_model(model_of(layer(), shape), layout, batch=2, **dict(zip("xyz", shape[:-1], strict=False)))


def test_merges():
    """Layers of several inputs."""
    shape = (6, 5, 4)
    for layer in (
        *(layers.Add(), layers.Subtract(), layers.Multiply(), layers.Average(), layers.Maximum(), layers.Minimum()),
        *(layers.Concatenate(), layers.Concatenate(axis=1), layers.Dot((2, 2))),
    ):
        is_dot = isinstance(layer, layers.Dot)
        model = model_of(layer, shape[:2] if is_dot else shape, 2)
        for layout in comparing.LAYOUTS:
            comparing.check_model(model, layout, batch=2, **dict(zip("xy", shape[: 1 if is_dot else 2])))


V1 = tf.compat.v1
R = tf.raw_ops
# {name: function of an image [2, 6, 5, 4]}
FUNCTIONS = {
    **{
        f: getattr(tf.math, f)
        for f in (
            *("abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "rint", "round"),
            *("sign", "sin", "sinh", "softplus", "softsign", "tan", "square", "negative"),
        )
    },
    "positive": lambda x: sum(
        f(tf.abs(x) + 0.1) for f in (tf.math.log, tf.math.log1p, tf.sqrt, tf.math.rsqrt, tf.math.reciprocal)
    ),
    "small": lambda x: sum(f(tf.tanh(x) * 0.9) for f in (tf.acos, tf.asin, tf.atanh)) + tf.acosh(tf.abs(x) + 1.1),
    "floor of quotients": lambda x: x + tf.stop_gradient(tf.math.floordiv(x, 0.3) + tf.math.floormod(x, 0.7)),
    "powers": lambda x: tf.abs(x) ** 2.5 + tf.pow(tf.abs(x) + 0.1, x[:, :, :, :1]),
    "quotients": lambda x: (
        tf.math.divide_no_nan(x, x[:, :1]) + x / (1 + x * x) + 1 / (2 + tf.sin(x)) + tf.atan2(x, 1 + x * x)
    ),
    "logarithms": lambda x: tf.math.xlogy(x, 1 + x * x) + tf.math.xdivy(x, 2.0) + tf.math.multiply_no_nan(x, x[:1]),
    "comparisons": lambda x: (
        tf.where((x > 0.1) & (x <= 1) | (x < -1) & tf.logical_not(x >= -0.5), x, 2 * x)
        + tf.cast(tf.equal(x, x) & tf.not_equal(x, 0.5), x.dtype)
    ),
    "tests": lambda x: tf.where(tf.math.is_finite(x) & ~tf.math.is_nan(x) & ~tf.math.is_inf(x), x, 0.0),
    "extrema": lambda x: tf.maximum(x, 0.3) - tf.minimum(x, x[:, :, ::-1]) + tf.clip_by_value(x, -0.5, 0.5),
    "differences": lambda x: tf.math.squared_difference(x, tf.reduce_mean(x, [1, 2], keepdims=True)),
    "sums": lambda x: tf.add_n([x, x * x, tf.reduce_sum(x, [3], keepdims=True) * x]),
    "reductions": lambda x: (
        tf.reduce_max(x, [1, 2])
        + tf.reduce_min(x, [1, 2])
        + tf.reduce_sum(x, [1, 2])
        + tf.cast(tf.reduce_all(x > -9, [1, 2]) & tf.reduce_any(x > 0, [1, 2]), x.dtype)
    ),
    "branch of sizes": lambda x: tf.cond(tf.shape(x)[1] > 7, lambda: x - 1, lambda: x * tf.reduce_sum(x) + 1),
    "branch of values": lambda x: (
        tf.cond(tf.reduce_all(x > 9), lambda: x / tf.reduce_sum(tf.nn.relu(x - 9)), lambda: x * x)
        + tf.cond(tf.reduce_any(x > 0), lambda: 2 * x[:, :1], lambda: tf.ones_like(x[:, :1]))
    ),
    "mean of all": lambda x: tf.reduce_mean(x) * tf.ones_like(x) + tf.zeros_like(x),
    "constants": lambda x: x * np.arange(4.0) + np.arange(6.0)[:, None, None] + np.ones([6, 1, 4]),
    "constants of other axes": lambda x: x[..., :1] * np.arange(3.0) + tf.fill([2, 6, 5, 3], tf.reduce_sum(x)),
    "slices": lambda x: x[:, 1:-1, ::2] + x[:, 2:, -3:, 1:2] - x[:1, :4, :3, tf.newaxis, 0],
    "rows": lambda x: x[:, 2, ..., tf.newaxis] + x[:, -1, 0, 0, None, None, None],
    "one slice": lambda x: tf.slice(x, [0, 1, 0, 0], [-1, 3, -1, 2]),
    "splits": lambda x: sum(tf.split(x, 2, axis=1)) + sum(tf.split(x, [1, 2, 3], axis=1)[2:]),
    "splits of channels": lambda x: tf.concat(tf.split(x, [1, -1, 2], axis=3)[::-1], 3) + tf.split(x, 2, 3)[0][..., :1],
    "unstack": lambda x: sum(tf.unstack(x, axis=2)) + tf.unstack(x, axis=3)[0][..., :1],
    "stack": lambda x: tf.stack([x, 2 * x, np.zeros([2, 6, 5, 4])], axis=3),
    "concat": lambda x: tf.concat([x, x[:, :2] * 2, np.ones([2, 1, 5, 4])], axis=1),
    "concat of channels": lambda x: tf.concat(
        [x, tf.reduce_mean(x, [1, 2], keepdims=True) * tf.ones([2, 6, 5, 1], x.dtype)], 3
    ),
    "gather": lambda x: tf.gather(x, [3, 0, 0, 5], axis=1) + tf.gather(x, 2, axis=3)[:, :4, :, None],
    "reverse": lambda x: tf.reverse(x, [1, 3]) * x,
    "roll": lambda x: tf.roll(tf.roll(x, [1, -2], [1, 3]) * x, 3, 2) + tf.roll(x, [1, 2], [1, 1]),
    "transpose": lambda x: tf.transpose(x, [0, 2, 1, 3]) + tf.transpose(x, [0, 2, 1, 3])[:, :, ::-1],
    "transpose and add": lambda x: x[:, :5] + tf.transpose(x[:, :5], [0, 2, 1, 3]),
    "reshape": lambda x: tf.reshape(tf.reshape(x, [2, 30, 4]) * np.arange(30.0)[:, None], [2, 6, 5, 4]),
    "reshape of odd parts": lambda x: tf.reshape(x, [2, 4, 5, 6]) * tf.reshape(x, [2, 4, 5, 6]),
    "reshape to rows": lambda x: (
        tf.reshape(tf.reshape(x, [-1, 4]) * 2, tf.shape(x)) + tf.cast(tf.size(x) + tf.rank(x), x.dtype)
    ),
    "tile": lambda x: tf.tile(x, [1, 2, 1, 1]) * tf.tile(x[:, :1], [1, 12, 1, 3])[..., :4],
    "broadcast": lambda x: tf.broadcast_to(x[:, :1], [2, 7, 5, 4]) ** 2,
    "repeat": lambda x: tf.repeat(x, 2, axis=1) * tf.repeat(tf.repeat(x, 2, axis=1), 1, axis=2),
    "mean of repeats": lambda x: (
        tf.reduce_sum(tf.repeat(x, 3, axis=1), [1]) + tf.reduce_mean(tf.tile(x, [1, 2, 1, 1]), 1)
    ),
    "squeeze": lambda x: (
        tf.squeeze(tf.expand_dims(x, 1), 1) + tf.squeeze(tf.reduce_sum(x, 3, keepdims=True))[..., None]
    ),
    "shapes": lambda x: x * tf.cast(tf.shape(x)[1], x.dtype) + tf.cast(tf.reduce_prod(tf.shape_n([x, x])[0]), x.dtype),
    "pad": lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=3.0) * 2,
    "pad of channels": lambda x: tf.pad(x, [[0, 0], [0, 0], [0, 0], [1, 2]]) ** 2,
    "reflect": lambda x: (
        tf.pad(x, [[0, 0], [2, 1], [1, 1], [0, 0]], "REFLECT")
        * tf.pad(x, [[0, 0], [2, 1], [1, 1], [0, 0]], "SYMMETRIC")
    ),
    "matmul": lambda x: tf.matmul(x, tf.tanh(x), transpose_b=True) @ x,
    "matmul of voxels": lambda x: tf.matmul(tf.reshape(x, [2, 30, 4]), tf.reshape(x, [2, 30, 4]), transpose_a=True),
    "matmul of matrices": lambda x: tf.reshape(x, [-1, 4]) @ tf.transpose(tf.reshape(x, [-1, 4])[:3]),
    "einsum of other axes": lambda x: (
        R.Einsum(inputs=[x, tf.tanh(x[0, :5])], equation="b...c,...dc->b...d")
        * R.Einsum(inputs=[x[..., 0], x[0, 0]], equation="...y,yc->...c")[:, :, None, :1]
        * R.Einsum(inputs=[x[:, 0]], equation="...c->c...")[1, :, None, :, None]
    ),
    "einsum": lambda x: tf.einsum("bxyc,bxyd->bcd", x, x * x) + tf.einsum("bxyc->bc", x)[..., None],
    "attention": lambda x: (
        tf.nn.softmax(tf.einsum("bxc,byc->bxy", *[tf.reshape(x, [2, 30, 4])] * 2)) @ tf.reshape(x, [2, 30, 4])
    ),
    "log softmax": lambda x: tf.nn.log_softmax(x) + tf.nn.softmax(x, axis=1),
    "leaky relu": lambda x: tf.nn.leaky_relu(x, 0.3) + tf.nn.leaky_relu(x, -0.1) + tf.nn.relu6(3 * x),
    "silu": lambda x: tf.nn.silu(x) + tf.nn.silu(x, 1.5),
    "bias": lambda x: tf.nn.bias_add(x, x[0, 0, 0]) + tf.nn.bias_add(x, [1.0, 2, 3, 4]),
    "depth to space": lambda x: tf.nn.space_to_depth(tf.nn.depth_to_space(x, 2) ** 2, 2),
    "space to batch": lambda x: tf.batch_to_space(
        tf.space_to_batch(x, [2, 1], [[1, 1], [0, 0]]) ** 2, [2, 1], [[0, 1], [1, 0]]
    ),
    "dilated": lambda x: tf.nn.atrous_conv2d(x, np.cos(np.arange(72.0)).reshape(3, 3, 4, 2), 2, "SAME"),
    "batch norm": lambda x: R.FusedBatchNormV3(
        x=tf.cast(x, tf.float32),
        scale=[1.0, 2, 3, 4],
        offset=[0.0, 1, 2, 3],
        mean=[0.0] * 4,
        variance=[1.0] * 4,
        is_training=True,
    )[0],
    "fixed batch norm": lambda x: R.FusedBatchNormV3(
        x=tf.cast(x, tf.float32),
        scale=[1.0, 2, 3, 4],
        offset=[0.0, 1, 2, 3],
        mean=[0.5] * 4,
        variance=[2.0] * 4,
        is_training=False,
    )[0],
    "resize of TensorFlow 1": lambda x: (
        V1.image.resize(x, [9, 4], "bilinear") + V1.image.resize(x, [9, 4], "bilinear", align_corners=True)
    ),
    "mean resize": lambda x: (
        tf.reduce_sum(x)
        * tf.stop_gradient(R.ResizeArea(images=x, size=[2, 5])[..., :1, :] + tf.image.resize(x, [2, 1], "area"))
    ),
    "mean resize by fractions": lambda x: (
        tf.reduce_sum(x) * tf.stop_gradient(tf.image.resize(x, [4, 7], "area")) + tf.image.resize(x, [4, 7], "nearest")
    ),
    "nearest resize": lambda x: (
        V1.image.resize(x, [9, 4], "nearest")
        + V1.image.resize(x, [9, 4], "nearest", align_corners=True)
        + tf.image.resize(x, [9, 4], "nearest")
    ),
    "embedding": lambda x: x * tf.gather(np.arange(12.0).reshape(3, 4), tf.argmax(x[..., :3], 3)),
    "patches": lambda x: (
        tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
        * tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 3, 1], [1, 2, 1, 1], "SAME")
    ),
    "volume patches": lambda x: tf.extract_volume_patches(x[..., None], [1, 3, 2, 2, 1], [1, 2, 1, 2, 1], "SAME") ** 2,
    "checks": lambda x: tf.debugging.check_numerics(tf.ensure_shape(x, [2, 6, 5, 4]), ""),
    "row selection": lambda x: V1.where(tf.abs(x) > 1, x, -x),
    "channels first": lambda x: (
        tf.transpose(x, [0, 3, 1, 2]) * tf.reduce_mean(tf.transpose(x, [0, 3, 1, 2]), [2, 3], keepdims=True)
    ),
}
FLOAT32_FUNCTIONS = {
    *("batch norm", "fixed batch norm", "mean resize", "mean resize by fractions", "resize of TensorFlow 1")
}


def function_of(name):
    dtype = tf.float32 if name in FLOAT32_FUNCTIONS else tf.float64
    return tf.function(FUNCTIONS[name], input_signature=[tf.TensorSpec([2, 6, 5, 4], dtype)], autograph=False)


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, layout):
    network = mi.networks.load(function_of(name))
    comparing.check(network, FUNCTIONS[name], {}, network.inputs(), layout)


EIGHT_AXES = {  # and a stack of slices has one more
    "slice": (lambda x: tf.reshape(x, [2, 2, 2, 2, 2, 4, 2, 2])[..., 1] ** 2, [2, 8, 8, 4]),
    "space to depth": (
        lambda x: (
            tf.reshape(
                tf.transpose(tf.reshape(x, [1, 3, 2, 2, 2, 1, 2, 2]), [0, 1, 3, 5, 2, 4, 6, 7]), [1, 3, 2, 1, 16]
            )
            ** 2
        ),
        [1, 6, 4, 2, 2],
    ),
    "depth to space": (
        lambda x: (
            tf.reshape(
                tf.transpose(tf.reshape(x, [1, 5, 3, 2, 2, 2, 2, 2]), [0, 1, 4, 2, 5, 3, 6, 7]), [1, 10, 6, 4, 2]
            )
            ** 2
        ),
        [1, 5, 3, 2, 16],
    ),
    "mean": (lambda x: tf.reduce_mean(tf.reshape(x, [1, 3, 2, 2, 2, 1, 2, 2]), [2, 4, 6]) ** 2, [1, 6, 4, 2, 2]),
}


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", EIGHT_AXES)
def test_eight_axes(name, layout):
    """TensorFlow slices, pads and broadcasts no more axes."""
    fn, shape = EIGHT_AXES[name]
    network = mi.networks.load(tf.function(fn, input_signature=[tf.TensorSpec(shape, tf.float64)], autograph=False))
    comparing.check(network, fn, {}, network.inputs(), layout)


def operations_of(network, shape):
    """Returns {operation of TensorFlow: names of its nodes} of a network."""
    shapes = dict.fromkeys(network.inputs(batch=2, **dict(zip("xyz", shape[:-1]))), (2, *shape))
    return network.graph(shapes, False).operations
