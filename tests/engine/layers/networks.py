"""Networks in terms of `mi.layers` only."""

import mtf_imaging as mi

layers = mi.layers


def convnext_block(x, filters):
    """A ConvNeXt block (Liu et al. 2022, arXiv:2201.03545)."""
    depthwise = layers.Conv(filters, 5, groups=filters)
    widened = layers.Dense(2 * filters, activation="gelu")
    return layers.Residual(depthwise, layers.Norm("layer"), widened, layers.Dense(filters))(x)


def attention_gate(skip, gate, filters):
    """The attention gate of Oktay et al. 2018 (arXiv:1804.03999)."""
    joint = mi.ops.relu(layers.Dense(filters)(skip) + layers.Dense(filters, use_bias=False)(gate))
    return skip * layers.Dense(filters, activation="sigmoid")(joint)


def attention_unet(image, filters=4, depth=2, classes=3):
    """A U-Net of ConvNeXt blocks, with attention gates on its skip connections."""
    x, skips = layers.Conv(filters)(image), []
    for level in range(depth):
        with layers.scope(f"down{level}"):
            x = convnext_block(x, filters * 2**level)
            skips.append(x)
            x = layers.Conv(filters * 2 ** (level + 1), 2, strides=2)(layers.Norm("layer")(x))
    x = convnext_block(x, filters * 2**depth)
    for level, skip in reversed(list(enumerate(skips))):
        with layers.scope(f"up{level}"):
            sizes = [dim.size for dim in skip.shape.dims[1:-1]]
            x = layers.ConvTranspose(filters * 2**level, output_sizes=sizes)(x)
            gated = attention_gate(skip, x, filters * 2**level)
            x = convnext_block(layers.Conv(filters * 2**level, 1)(layers.concat([x, gated])), filters * 2**level)
    return layers.widen(layers.Conv(classes, 1)(x))


def edsr(image, filters=4, blocks=2, factor=2):
    """EDSR (Lim et al. 2017, arXiv:1707.02921): residual blocks without norms, and a pixel shuffle."""
    x = first = layers.Conv(filters)(image)
    for _ in range(blocks):
        x = layers.Residual(layers.Conv(filters, activation="relu"), layers.Conv(filters))(x)
    x = layers.Conv(filters)(x) + first
    x = mi.ops.depth_to_space(layers.Conv(filters * factor**2)(x), factor)
    return layers.Conv(image.shape.dims[-1].size)(x)
