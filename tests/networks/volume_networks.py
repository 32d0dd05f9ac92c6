"""Networks for whole volumes, rebuilt from their papers in plain Keras 3 with few channels."""

import keras

layers, ops = keras.layers, keras.ops

IMAGE = (None, None, None, 1)


def _conv(x, filters, kernel=3, norm=None, activation=None, **settings):
    x = layers.Conv3D(filters, kernel, padding="same", **settings)(x)
    x = norm()(x) if norm else x
    return layers.Activation(activation)(x) if isinstance(activation, str) else activation()(x) if activation else x


def _instance_norm():
    return layers.GroupNormalization(groups=-1, epsilon=1e-5)


def _group_norm():
    return layers.GroupNormalization(groups=2, epsilon=1e-5)


def _prelu():
    return layers.PReLU(shared_axes=[1, 2, 3])


def _leaky_relu():
    return layers.LeakyReLU(0.01)


def _pooled(x, kind="max", strides=(2, 2, 2)):
    """Pools with Keras's layer; in float64, for which TensorFlow has no 3D pools, with slices."""
    if x.dtype != "float64":
        return {"max": layers.MaxPool3D, "average": layers.AveragePooling3D}[kind](strides)(x)
    a, b, c = strides
    parts = [x[:, i::a, j::b, k::c] for i in range(a) for j in range(b) for k in range(c)]
    return layers.Maximum()(parts) if kind == "max" else layers.Average()(parts)


def _up(x, filters, strides=2, kernel=2):
    return layers.Conv3DTranspose(filters, kernel, strides=strides, padding="same")(x)


def unet3d(width=2):
    """3D U-Net (Çiçek et al. 2016, arXiv:1606.06650): pools, batch norms, transposed convolutions."""

    def block(x, *filters):
        for n in filters:
            x = _conv(x, n, norm=layers.BatchNormalization, activation="relu")
        return x

    x = image = keras.Input(IMAGE)
    skips = []
    for n in (width, 2 * width, 4 * width):
        skips.append(block(x, n, 2 * n))
        x = _pooled(skips[-1])
    x = block(x, 8 * width, 16 * width)
    for n, skip in zip((4 * width, 2 * width, width), reversed(skips), strict=True):
        x = block(layers.Concatenate()([_up(x, 4 * n), skip]), 2 * n, 2 * n)
    return keras.Model(image, _conv(x, 3, 1, activation="softmax"))


def vnet(width=2):
    """V-Net (Milletari et al. 2016, arXiv:1606.04797): windows of 5 voxels, residual stages, PReLU."""

    def stage(x, filters, number, residual):
        for i in range(number):
            x = layers.Conv3D(filters, 5, padding="same")(x)
            x = _prelu()(x + residual if i == number - 1 else x)
        return x

    image = keras.Input(IMAGE)
    x = stage(image, width, 1, image)
    skips = []
    for level, number in enumerate((2, 3, 3, 3), 1):
        skips.append(x)
        x = _conv(x, width * 2**level, 2, strides=2, activation=_prelu)
        x = stage(x, width * 2**level, number, x)
    for level, number in zip((3, 2, 1, 0), (3, 3, 2, 1), strict=True):
        x = _prelu()(_up(x, width * 2**level))
        x = layers.Concatenate()([x, skips[level]])
        x = stage(x, width * 2 ** (level + 1), number, x)
    return keras.Model(image, _conv(x, 2, 1, activation="softmax"))


_STRIDES = ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 2, 2))  # a plan for anisotropic voxels


def _nnunet(image, encode, width, strides):
    """Returns the features of the decoder, from coarse to fine."""

    def unit(x, filters, **settings):
        return _conv(x, filters, norm=_instance_norm, activation=_leaky_relu, **settings)

    x, skips = image, []
    for level, stride in enumerate(strides):
        x = encode(x, width * 2**level, stride, level)
        skips.append(x)
    features = []
    for level in reversed(range(len(strides) - 1)):
        n, stride = width * 2**level, strides[level + 1]
        x = layers.Concatenate()([_up(x, n, stride, stride), skips[level]])
        x = unit(unit(x, n), n)
        features.append(x)
    return features


def _plain_stage(x, filters, stride, level):
    for strides in (stride, 1):
        x = _conv(x, filters, strides=strides, norm=_instance_norm, activation=_leaky_relu)
    return x


def nnunet(width=2):
    """nnU-Net's plain network (Isensee et al. 2021, doi:10.1038/s41592-020-01008-z)."""
    image = keras.Input(IMAGE)
    return keras.Model(image, _conv(_nnunet(image, _plain_stage, width, _STRIDES)[-1], 3, 1))


def _residual_block(x, filters, stride):
    y = _conv(x, filters, strides=stride, norm=_instance_norm, activation=_leaky_relu)
    y = _conv(y, filters, norm=_instance_norm)
    x = _pooled(x, "average", stride) if max(stride) > 1 else x
    if x.shape[-1] != filters:
        x = _conv(x, filters, 1, use_bias=False, norm=_instance_norm)
    return _leaky_relu()(layers.Add()([x, y]))


def nnunet_residual(width=2):
    """nnU-Net's residual encoder (Isensee et al. 2024, arXiv:2404.09556), with 1, 3, 4 and 6 blocks."""

    def encode(x, filters, stride, level):
        if level == 0:
            x = _conv(x, filters, norm=_instance_norm, activation=_leaky_relu)
        for i in range((1, 3, 4, 6)[level]):
            x = _residual_block(x, filters, stride if i == 0 else (1, 1, 1))
        return x

    image = keras.Input(IMAGE)
    return keras.Model(image, _conv(_nnunet(image, encode, width, _STRIDES)[-1], 3, 1))


def dynunet(width=2):
    """DynUNet of MONAI (Cardoso et al. 2022, arXiv:2211.02701): nnU-Net whose heads are stacked for the loss."""
    strides = ((1, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 1))
    image = keras.Input(IMAGE)
    *coarse, fine = _nnunet(image, _plain_stage, width, strides)
    heads = [_conv(fine, 2, 1)]
    for level, x in enumerate(reversed(coarse), 1):
        heads.append(layers.UpSampling3D(2**level)(_conv(x, 2, 1)))
    return keras.Model(image, ops.stack(heads, axis=1))


def segresnet(width=4):
    """SegResNet (Myronenko 2018, arXiv:1810.11654): pre-activation, group norms, trilinear up-sampling."""

    def block(x):
        y = x
        for _ in range(2):
            y = layers.ReLU()(_group_norm()(y))
            y = _conv(y, x.shape[-1], use_bias=False)
        return x + y

    def trilinear(x):
        x = layers.UpSampling3D(2)(x)
        for axis in (1, 2, 3):
            wide = ops.pad(x, [(int(i == axis),) * 2 for i in range(5)], mode="symmetric")
            at = (slice(None),) * axis
            x = (wide[(*at, slice(None, -2))] + 2 * wide[(*at, slice(1, -1))] + wide[(*at, slice(2, None))]) / 4
        return x

    image = keras.Input(IMAGE)
    x, skips = layers.SpatialDropout3D(0.2)(_conv(image, width, use_bias=False)), []
    for level, number in enumerate((1, 2, 2, 4)):
        if level:
            skips.append(x)
            x = _conv(x, width * 2**level, strides=2, use_bias=False)
        for _ in range(number):
            x = block(x)
    for level in (2, 1, 0):
        x = block(trilinear(_conv(x, width * 2**level, 1, use_bias=False)) + skips[level])
    return keras.Model(image, _conv(layers.ReLU()(_group_norm()(x)), 3, 1))


def synthseg(width=2):
    """The U-Net of SynthSeg (Billot et al. 2023, arXiv:2107.09559): 5 levels, ELU, a batch norm after each level."""

    def level(x, filters):
        for _ in range(2):
            x = _conv(x, filters, activation="elu")
        return x

    x = image = keras.Input(IMAGE)
    skips = []
    for n in (1, 2, 4, 8):
        skips.append(level(x, n * width))
        x = _pooled(layers.BatchNormalization()(skips[-1]))
    x = layers.BatchNormalization()(level(x, 16 * width))
    for n, skip in zip((8, 4, 2, 1), reversed(skips), strict=True):
        x = layers.Concatenate()([skip, layers.UpSampling3D(2)(x)])
        x = layers.BatchNormalization()(level(x, n * width))
    return keras.Model(image, layers.Activation("softmax")(_conv(x, 3, 1)))


def voxelmorph(width=2):
    """The U-Net of VoxelMorph (Balakrishnan et al. 2019, arXiv:1809.05231): the flow between two images."""

    def leaky():
        return layers.LeakyReLU(0.2)

    moving, fixed = keras.Input(IMAGE, name="moving"), keras.Input(IMAGE, name="fixed")
    x = layers.Concatenate()([moving, fixed])
    skips = [x]
    for n in (1, 2, 2, 2):
        skips.append(_conv(x, n * width, activation=leaky))
        x = _pooled(skips[-1])
    for skip in skips[:0:-1]:
        x = _conv(x, 2 * width, activation=leaky)
        x = layers.Concatenate()([layers.UpSampling3D(2)(x), skip])
    for n in (2, 1, 1):
        x = _conv(x, n * width, activation=leaky)
    return keras.Model([moving, fixed], _conv(x, 3, name="flow"))


def highres3dnet(width=2):
    """HighRes3DNet (Li et al. 2017, arXiv:1707.01992): dilated residual blocks at full resolution."""

    def unit(x, filters, kernel=3, **settings):
        x = layers.ReLU()(layers.BatchNormalization()(x))
        return _conv(x, filters, kernel, use_bias=False, **settings)

    image = keras.Input(IMAGE)
    x = _conv(image, width, norm=layers.BatchNormalization, activation="relu")
    for n, dilation in ((1, 1), (2, 2), (4, 4)):
        for _ in range(3):
            y = unit(x, n * width, dilation_rate=dilation)
            y = unit(y, n * width, dilation_rate=dilation)
            more = (n * width - x.shape[-1]) // 2  # channels that the shortcut lacks
            x = y + (ops.pad(x, [(0, 0)] * 4 + [(more, more)]) if more else x)
    x = _conv(x, 5 * width, 1, norm=layers.BatchNormalization, activation="relu")
    return keras.Model(image, _conv(x, 4, 1, activation="softmax"))


def meshnet(width=3):
    """MeshNet (Fedorov et al. 2017, arXiv:1612.00940): dilated convolutions, and nothing else."""
    x = image = keras.Input(IMAGE)
    for dilation in (1, 1, 1, 2, 4, 8, 1):
        x = _conv(x, width, dilation_rate=dilation, norm=layers.BatchNormalization, activation="relu")
        x = layers.SpatialDropout3D(0.1)(x)
    return keras.Model(image, _conv(x, 3, 1))


def attention_unet(width=2):
    """Attention U-Net (Oktay et al. 2018, arXiv:1804.03999): gates that coarse features open."""

    def block(x, filters):
        for _ in range(2):
            x = _conv(x, filters, norm=layers.BatchNormalization, activation="relu")
        return x

    def gated(x, signal, filters):
        y = layers.ReLU()(_conv(x, filters, 2, strides=2, use_bias=False) + _conv(signal, filters, 1))
        gate = layers.UpSampling3D(2)(_conv(y, 1, 1, activation="sigmoid"))
        return _conv(x * gate, filters, 1, norm=layers.BatchNormalization)

    x = image = keras.Input(IMAGE)
    skips = []
    for n in (1, 2, 4):
        skips.append(block(x, n * width))
        x = _pooled(skips[-1])
    x = block(x, 8 * width)
    for n, skip in zip((4, 2, 1), reversed(skips), strict=True):
        attended = gated(skip, _conv(x, n * width, 1, norm=layers.BatchNormalization, activation="relu"), n * width)
        x = block(layers.Concatenate()([attended, _up(x, n * width)]), n * width)
    return keras.Model(image, _conv(x, 3, 1, activation="softmax"))


# {name: (network, sizes)}. Levels halve an axis up to four times, so that slices become smaller than a voxel.
VOLUME_NETWORKS = {
    "3D U-Net": (unet3d, (16, 8, 8)),
    "V-Net": (vnet, (16, 16, 16)),
    "nnU-Net": (nnunet, (12, 16, 8)),
    "nnU-Net, residual encoder": (nnunet_residual, (12, 16, 8)),
    "DynUNet": (dynunet, (16, 8, 8)),
    "SegResNet": (segresnet, (16, 8, 8)),
    "SynthSeg": (synthseg, (16, 16, 16)),
    "VoxelMorph": (voxelmorph, (16, 16, 16)),
    "HighRes3DNet": (highres3dnet, (14, 9, 6)),
    "MeshNet": (meshnet, (15, 12, 8)),
    "Attention U-Net": (attention_unet, (16, 8, 8)),
}
