"""Every operation and every layer equals TensorFlow: outputs, and gradients by inputs and weights."""

import keras
import pytest

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
    **{f"activation {name}": (lambda name=name: layers.Activation(name), IMAGE) for name in (
        *("elu", "selu", "gelu", "silu", "sigmoid", "tanh", "softplus", "softsign", "relu6", "hard_sigmoid"),
        *("hard_silu", "mish", "exponential", "log_softmax", "leaky_relu", "celu", "tanh_shrink", "squareplus"),
    )},  # fmt: skip
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
    keras.config.set_floatx("float32" if name in FLOAT32 else "float64")
    yield
    keras.config.set_floatx("float32")
    keras.utils.clear_session()


@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, layout):
    layer, shape = LAYERS[name]
    comparing.check_model(model_of(layer(), shape), layout, batch=2, **dict(zip("xyz", shape[:-1], strict=False)))
