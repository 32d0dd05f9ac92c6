"""RetinaNet has as many parameters as the published networks."""

import pytest

from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.detection import ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import ResNetBackbone


def conv_norm(size, inputs, outputs):
    """Returns the weights of a convolution and its batch norm."""
    return size**2 * inputs * outputs + 2 * outputs


def resnet(*stages):
    total, inputs = conv_norm(7, 3, 64), 64
    for filters, blocks in zip((64, 128, 256, 512), stages):
        total += conv_norm(1, inputs, 4 * filters)  # the shortcut of the first block
        for _ in range(blocks):
            total += conv_norm(1, inputs, filters) + conv_norm(3, filters, filters) + conv_norm(1, filters, 4 * filters)
            inputs = 4 * filters
    return total


def conv(size, inputs, outputs):
    """Returns the weights of a convolution with a bias."""
    return (size**2 * inputs + 1) * outputs


def pyramid(levels=5):
    return sum(conv(1, inputs, 256) for inputs in (512, 1024, 2048)) + levels * (conv(3, 256, 256) + 2 * 256)


def heads(classes, levels=5, anchors=9):
    subnet = 4 * (conv(3, 256, 256) + levels * 2 * 256)
    return 2 * subnet + conv(3, 256, anchors * classes) + conv(3, 256, anchors * 4)


@pytest.mark.parametrize(
    ("blocks", "millions"),
    [((3, 4, 6, 3), ("23.51", "3.87", "6.69", "34.07")), ((3, 4, 23, 3), ("42.50", "3.87", "6.69", "53.06"))],
    ids=["ResNet-50", "ResNet-101"],
)
def test_parameters_of_the_published_networks(blocks, millions):
    task = ObjectDetection(RetinaNet(ResNetBackbone(blocks=blocks)))
    inputs = task.inputs(2, (64, 64), labels=False)
    variables = trace_only(lambda image: task.network(image, True)[0][0], inputs).graph.trainable_variables
    groups = {"fpn/": 0, "class_head/": 0, "box_head/": 0, "": 0}
    for v in variables:
        groups[next(prefix for prefix in groups if v.name.startswith(prefix))] += v.shape.size
    counted = groups[""], groups["fpn/"], groups["class_head/"] + groups["box_head/"]
    assert counted == (resnet(*blocks), pyramid(), heads(90))
    assert tuple(f"{number / 1e6:.2f}" for number in (*counted, sum(counted))) == millions
