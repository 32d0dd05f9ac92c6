"""DeepLab has as many parameters as the published networks."""

import pytest

from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.resnet import ResNetBackbone, Xception

RESNET_101 = ResNetBackbone(blocks=(3, 4, 23, 3), stem="v1-beta", output_stride=16)
XCEPTION_65 = Xception(output_stride=16)


def conv(size, inputs, outputs):
    """Returns the weights of a convolution and its batch norm."""
    return size**2 * inputs * outputs + 2 * outputs


def separable(inputs, outputs):
    return 9 * inputs + 2 * inputs + conv(1, inputs, outputs)


def resnet_101():
    total, inputs = conv(3, 3, 64) + conv(3, 64, 64) + conv(3, 64, 128), 128
    for filters, blocks in ((64, 3), (128, 4), (256, 23), (512, 3)):
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


@pytest.mark.parametrize(
    ("backbone", "is_separable", "by_formula", "millions"),
    [
        (RESNET_101, False, (resnet_101(), aspp(plain), decoder(plain)), ("42.62", "15.54", "1.31", "59.47")),
        (XCEPTION_65, True, (xception_65(), aspp(separable), decoder(separable)), ("37.87", "3.02", "0.17", "41.06")),
    ],
    ids=["ResNet-101", "Xception-65"],
)
def test_parameters_of_the_published_networks(backbone, is_separable, by_formula, millions):
    task = SemanticSegmentation(DeepLab(backbone, separable=is_separable))
    variables = trace_only(task.loss, task.inputs(2, (65, 65))).graph.trainable_variables
    sizes = {v.name: v.shape.size for v in variables}
    groups = {"deeplab/aspp/": 0, "deeplab/": 0, "": 0}
    for name, size in sizes.items():
        groups[next(prefix for prefix in groups if name.startswith(prefix))] += size
    counted = groups[""], groups["deeplab/aspp/"], groups["deeplab/"]
    assert counted == by_formula
    assert tuple(f"{number / 1e6:.2f}" for number in (*counted, sum(counted))) == millions
