"""Small networks as users build them, in Keras 3."""

import keras

layers = keras.layers


def _block(x, filters, norm=True):
    for _ in range(2):
        x = layers.Conv3D(filters, 3, padding="same", use_bias=not norm)(x)
        x = layers.BatchNormalization(momentum=0.9)(x) if norm else x
        x = layers.ReLU()(x)
    return x


def unet():
    """A 3D U-Net with up-sampling and batch norm, for any size."""
    image = keras.Input((None, None, None, 1))
    skip = _block(image, 4)
    x = _block(layers.MaxPool3D()(skip), 6)
    x = layers.Concatenate()([layers.UpSampling3D()(x), skip])
    return keras.Model(image, layers.Conv3D(2, 1, activation="softmax")(_block(x, 4)))


def unet_with_transposed_convolutions():
    """A 3D U-Net with strided and transposed convolutions, group norm, and two outputs."""
    image = keras.Input((None, None, None, 2), name="ct")
    skip = layers.LeakyReLU()(layers.GroupNormalization(2)(layers.Conv3D(4, 3, padding="same")(image)))
    x = layers.Conv3D(6, 3, strides=2, padding="same", activation="relu")(skip)
    coarse = layers.Conv3D(2, 1, name="coarse")(x)
    x = layers.Conv3DTranspose(4, 2, strides=2, padding="same")(x)
    x = layers.Add()([x, skip])
    return keras.Model(image, {"fine": layers.Conv3D(2, 1, name="fine")(x), "coarse": coarse})


def residual():
    """A residual network with strides and batch norm, whose head flattens the image."""
    image = keras.Input((12, 8, 3))
    x = layers.Conv2D(4, 3, strides=2, padding="same")(image)
    for filters, strides in [(4, 1), (6, 2)]:
        y = layers.BatchNormalization(momentum=0.8)(x)
        y = layers.Activation("relu")(y)
        y = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(y)
        y = layers.BatchNormalization(momentum=0.8, scale=False)(y)
        x = y + (x if strides == 1 else layers.Conv2D(filters, 1, strides=strides)(x))
    return keras.Model(image, layers.Dense(5, activation="softmax")(layers.Flatten()(x)))


def separable():
    """Inverted residual blocks with depthwise convolutions and squeeze-and-excitation, and a pooled head."""
    image = keras.Input((None, None, 3))
    x = layers.Conv2D(6, 3, strides=2, padding="same", activation="silu")(image)
    y = layers.DepthwiseConv2D(3, padding="same", activation="silu")(layers.Conv2D(8, 1)(x))
    squeezed = layers.GlobalAveragePooling2D(keepdims=True)(y)
    squeezed = layers.Conv2D(8, 1, activation="sigmoid")(layers.Conv2D(3, 1, activation="silu")(squeezed))
    x = x + layers.Conv2D(6, 1)(layers.Multiply()([y, squeezed]))
    x = layers.SeparableConv2D(6, 3, padding="same", dilation_rate=2)(x)
    return keras.Model(image, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


def attention():
    """Self-attention over the voxels of an image, and a gate as in Attention U-Net."""
    image = keras.Input((6, 4, 3))
    x = layers.Conv2D(8, 3, padding="same")(image)
    tokens = layers.Reshape((24, 8))(x)
    tokens = tokens + layers.MultiHeadAttention(2, 4)(tokens, tokens)
    tokens = layers.LayerNormalization()(tokens)
    y = layers.Reshape((6, 4, 8))(tokens)
    gate = layers.Conv2D(1, 1, activation="sigmoid")(layers.Activation("relu")(x + y))
    return keras.Model(image, layers.Conv2D(2, 1)(layers.Multiply()([x, gate])))


def siamese():
    """Two inputs, one shared encoder within a nested model, and a loss between them."""
    encoder = keras.Sequential([layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization()], name="encoder")
    first, second = (keras.Input((None, None, 2), name=name) for name in ("fixed", "moving"))
    a, b = encoder(first), encoder(second)
    return keras.Model(
        [first, second],
        [layers.Concatenate()([a, b]), layers.Dot((1, 1))([layers.Reshape((-1, 4))(a), layers.Reshape((-1, 4))(b)])],
    )


def spectral():
    """Convolutions whose kernels a spectral norm divides in every step of the training, one of them shared."""
    image = keras.Input((None, None, 3))
    shared = layers.SpectralNormalization(layers.Conv2D(3, 3, padding="same"), power_iterations=2)
    x = layers.LeakyReLU(0.2)(shared(shared(image)))
    x = layers.SpectralNormalization(layers.Conv2D(6, 3, strides=2, padding="same"))(x)
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(x))
    return keras.Model(image, layers.SpectralNormalization(layers.Dense(2))(x))


NETWORKS = {
    "unet": (unet, {"x": 8, "y": 6, "z": 4}),
    "unet with transposed convolutions": (unet_with_transposed_convolutions, {"x": 8, "y": 6, "z": 4}),
    "residual": (residual, {"x": 12, "y": 8}),
    "separable": (separable, {"x": 12, "y": 10}),
    "attention": (attention, {"x": 6, "y": 4}),
    "siamese": (siamese, {"x": 6, "y": 5}),
    "spectral": (spectral, {"x": 8, "y": 6}),
}
