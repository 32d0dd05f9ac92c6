"""DeepLab and RetinaNet have as many parameters as the published networks."""

import pytest

from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.detection import ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import ResNetBackbone, Xception

RESNET_101 = ResNetBackbone(blocks=(3, 4, 23, 3), stem="v1-beta", output_stride=16)
XCEPTION_65 = Xception(output_stride=16)


def conv(size, inputs, outputs):
    """Returns the weights of a convolution and its batch norm."""
    return size**2 * inputs * outputs + 2 * outputs


def biased_conv(size, inputs, outputs):
    """Returns the weights of a convolution with a bias."""
    return (size**2 * inputs + 1) * outputs


def separable(inputs, outputs):
    return 9 * inputs + 2 * inputs + conv(1, inputs, outputs)


def resnet(stem, inputs, *stages):
    """Returns the weights of a residual network, given the weights and the channels of its stem."""
    total = stem
    for filters, blocks in zip((64, 128, 256, 512), stages):
        total += conv(1, inputs, 4 * filters)  # the shortcut of the first block
        for _ in range(blocks):
            total += conv(1, inputs, filters) + conv(3, filters, filters) + conv(1, filters, 4 * filters)
            inputs = 4 * filters
    return total


def xception_65():
    total, inputs = conv(3, 3, 32) + conv(3, 32, 64), 64
    middle = [((728, 728, 728), False)] * 16
    entry = [((128,) * 3, True), ((256,) * 3, True), ((728,) * 3, True)]
    for filters, shortcut in [*entry, *middle, ((728, 1024, 1024), True), ((1536, 1536, 2048), False)]:
        total += conv(1, inputs, filters[-1]) if shortcut else 0
        for outputs in filters:
            total += separable(inputs, outputs)
            inputs = outputs
    return total


def aspp(spatial):
    return 2 * conv(1, 2048, 256) + 3 * spatial(2048, 256) + conv(1, 5 * 256, 256)


def decoder(spatial):
    return conv(1, 256, 48) + spatial(304, 256) + spatial(256, 256) + (256 + 1) * 21


def plain(inputs, outputs):
    return conv(3, inputs, outputs)


def pyramid(levels=5):
    laterals = sum(biased_conv(1, inputs, 256) for inputs in (512, 1024, 2048))
    return laterals + levels * (biased_conv(3, 256, 256) + 2 * 256)


def heads(classes, levels=5, anchors=9):
    subnet = 4 * (biased_conv(3, 256, 256) + levels * 2 * 256)
    return 2 * subnet + biased_conv(3, 256, anchors * classes) + biased_conv(3, 256, anchors * 4)


def check(variables, scopes, by_formula, millions):
    """Compares the weights in scopes, and those of all others first, with a formula and with published numbers."""
    counted = dict.fromkeys(["", *scopes], 0)
    for v in variables:
        counted[next((scope for scope in scopes if v.name.startswith(scope)), "")] += v.shape.size
    assert tuple(counted.values()) == by_formula
    assert tuple(f"{number / 1e6:.2f}" for number in (*by_formula, sum(by_formula))) == millions


@pytest.mark.parametrize(
    ("backbone", "is_separable", "by_formula", "millions"),
    [
        (
            RESNET_101,
            False,
            (
                resnet(conv(3, 3, 64) + conv(3, 64, 64) + conv(3, 64, 128), 128, 3, 4, 23, 3),
                aspp(plain),
                decoder(plain),
            ),
            ("42.62", "15.54", "1.31", "59.47"),
        ),
        (XCEPTION_65, True, (xception_65(), aspp(separable), decoder(separable)), ("37.87", "3.02", "0.17", "41.06")),
    ],
    ids=["ResNet-101", "Xception-65"],
)
def test_deeplab(backbone, is_separable, by_formula, millions):
    task = SemanticSegmentation(DeepLab(backbone, separable=is_separable))
    variables = trace_only(task.loss, task.inputs(2, (65, 65))).graph.trainable_variables
    check(variables, ["deeplab/aspp/", "deeplab/"], by_formula, millions)


@pytest.mark.parametrize(
    ("blocks", "millions"),
    [((3, 4, 6, 3), ("23.51", "3.87", "6.69", "34.07")), ((3, 4, 23, 3), ("42.50", "3.87", "6.69", "53.06"))],
    ids=["ResNet-50", "ResNet-101"],
)
def test_retinanet(blocks, millions):
    task = ObjectDetection(RetinaNet(ResNetBackbone(blocks=blocks)))
    inputs = task.inputs(2, (64, 64), labels=False)
    variables = trace_only(lambda image: task.network(image, True)[0][0], inputs).graph.trainable_variables
    by_formula = resnet(conv(7, 3, 64), 64, *blocks), pyramid(), heads(90)
    check(variables, ["fpn/", ("class_head/", "box_head/")], by_formula, millions)
