"""Residual networks as backbones: equal to plain TensorFlow under every layout, and of the published size."""

import functools

import pytest

import mtf_imaging as mi
from mtf_imaging.models.resnet import ResNet, ResNetBackbone, Xception
from tests.models import backbones, reference_backbones

SMALL = {"base_filters": 2, "norm_momentum": 0.9}
NETWORKS = {
    "v1-beta 16": ResNetBackbone(**SMALL, blocks=(1, 1, 1, 3), stem="v1-beta", output_stride=16),
    "7x7 8": ResNetBackbone(**SMALL, blocks=(1, 1, 1, 2), output_stride=8),
    "v1-beta 8 basic": ResNetBackbone(
        **SMALL, blocks=(1, 1, 2), bottleneck=False, stem="v1-beta", output_stride=8, multigrid=(2, 1)
    ),
    "7x7 32 same": ResNetBackbone(**SMALL, blocks=(1, 2, 1), padding="same"),
    "7x7 32 1x1": ResNetBackbone(**SMALL, blocks=(1, 2, 1), pool_padding="fixed", strided_conv="1x1"),
}
# Network, size of the image, layout, and whether norms use the statistics of the batch.
FAST = [
    ("v1-beta 8 basic", (33, 33), "3x1 placement", False),
]
SLOW = [
    ("7x7 8", (32, 32), "whole", False),
    ("v1-beta 16", (33, 33), "2x2", True),
    ("v1-beta 16", (32, 32), "4x2", False),
    ("v1-beta 16", (33, 33), "3x1", True),
    ("v1-beta 8 basic", (32, 35), "whole", True),
    ("7x7 8", (33, 33), "4x2", True),
    ("7x7 8", (32, 32), "3x1", False),
    ("7x7 8", (33, 33), "2x2 placement", False),
    ("7x7 8", (32, 32), "2x2", True),
    ("7x7 32 same", (32, 35), "whole", True),
    ("7x7 32 same", (32, 32), "2x2", False),
    ("7x7 32 1x1", (32, 36), "whole", True),
    ("7x7 32 1x1", (32, 35), "3x1", True),
    ("7x7 32 1x1", (32, 32), "2x2", False),
]


@functools.cache
def reference(network):
    backbone = NETWORKS[network]
    names = ("blocks", "output_stride", "multigrid", "pool_padding", "strided_conv")
    settings = {name: getattr(backbone, name) for name in names}
    return functools.partial(reference_backbones.resnet, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "size", "layout", "is_training"),
    [
        *(pytest.param(*row, id=" ".join(map(str, row))) for row in FAST),
        *(pytest.param(*row, id=" ".join(map(str, row))) for row in SLOW),
    ],
)
def test_values_and_gradients_equal_plain_tensorflow(network, size, layout, is_training):
    backbones.check(NETWORKS[network], size, is_training, reference(network), layout)


@pytest.mark.slow
def test_recomputed_and_gathered_features():
    settings = {"blocks": (1, 1), "bottleneck": False, "gather_below": 3, "recompute": True}
    backbone = ResNetBackbone(**SMALL, **settings)
    network = functools.partial(reference_backbones.resnet, blocks=(1, 1), output_stride=None)
    program = backbones.check(backbone, (33, 16), True, network, "2x2")
    # Slices of 9 and 4 pixels after the stem, 5 and 2 after its pool, and 3 of the whole width of 2 in the last stage.
    assert [change.name for change in program.changes] == ["resnet/pool_gather"]
    graph = backbones.trace_features(backbone).graph
    assert sum(op.name.split("/")[-1].startswith("recompute") for op in graph.operations) == 3


def conv(size, inputs, outputs):
    """Returns the number of weights of a convolution and its norm, which has a scale and an offset."""
    return size * size * inputs * outputs + 2 * outputs


def bottlenecks(inputs, blocks):
    """Returns the number of weights of four stages with 64 to 512 filters."""
    total = 0
    for filters, number in zip((64, 128, 256, 512), blocks):
        total += conv(1, inputs, 4 * filters)  # the shortcut of the first block
        for _ in range(number):
            total += conv(1, inputs, filters) + conv(3, filters, filters) + conv(1, filters, 4 * filters)
            inputs = 4 * filters
    return total


V1_BETA = conv(3, 3, 64) + conv(3, 64, 64) + conv(3, 64, 128)


@pytest.mark.parametrize(
    ("network", "weights", "published"),
    [
        (
            ResNetBackbone(blocks=(3, 4, 23, 3), stem="v1-beta", output_stride=16).features,
            V1_BETA + bottlenecks(128, (3, 4, 23, 3)),
            42_623_936,
        ),
        (ResNetBackbone().features, conv(7, 3, 64) + bottlenecks(64, (3, 4, 6, 3)), 23_508_032),
        (
            ResNetBackbone(blocks=(3, 8, 36, 3), output_stride=8).features,
            conv(7, 3, 64) + bottlenecks(64, (3, 8, 36, 3)),
            58_143_808,
        ),
        (
            ResNet(blocks=(3, 4, 6, 3), bottleneck=True),
            conv(7, 3, 64) + bottlenecks(64, (3, 4, 6, 3)) + 2048 * 1000 + 1000,
            25_557_032,
        ),
    ],
    ids=["ResNet-101 v1-beta", "ResNet-50", "ResNet-152", "ResNet-50 with classes"],
)
def test_numbers_of_weights(network, weights, published):
    """Trained weights: filters, scales, offsets and the dense layer, without moving statistics."""
    assert weights == published
    assert backbones.count_weights(functools.partial(network, is_training=True)) == published


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize(
    ("output_stride", "strides", "sizes"),
    [
        (None, (4, 8, 16, 32), (129, 65, 33, 17)),
        (32, (4, 8, 16, 32), (129, 65, 33, 17)),
        (16, (4, 8, 16, 16), (129, 65, 33, 33)),
        (8, (4, 8, 8, 8), (129, 65, 65, 65)),
    ],
)
@pytest.mark.parametrize(
    ("backbone", "channels"), [(ResNetBackbone, (256, 512, 1024, 2048)), (Xception, (256, 728, 728, 2048))]
)
def test_shapes_of_features(backbone, channels, output_stride, strides, sizes):
    backbone = backbone(output_stride=output_stride)
    assert backbone.strides == strides
    features = backbones.trace_features(backbone, (513, 512)).outputs
    heights, widths = ([feature.shape.to_integer_list[axis] for feature in features] for axis in (1, 2))
    assert tuple(heights) == sizes
    assert tuple(widths) == tuple(512 // stride for stride in strides)
    assert tuple(feature.shape.dims[-1].size for feature in features) == channels


def test_a_factor_of_the_multigrid_is_missing():
    message = r"ResNetBackbone.multigrid = \(1, 2\): the last stage has 3 blocks. Fix: give a factor for each block."
    with pytest.raises(mi.ConfigError, match=message):
        ResNetBackbone(output_stride=16, multigrid=(1, 2))


def test_multigrid_is_needed_only_for_dilated_stages():
    ResNetBackbone(blocks=(1, 1, 1, 4), output_stride=32)
    ResNetBackbone(blocks=(2, 2), output_stride=8, multigrid=(1,))
