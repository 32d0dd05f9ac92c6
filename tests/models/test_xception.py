"""Xception-65: equal to plain TensorFlow under every layout, and of the published size."""

import functools

import pytest

from mtf_imaging.models.resnet import Xception
from tests.models import backbones, reference_backbones

NETWORKS = {
    stride: Xception(base_filters=1, middle_blocks=1, norm_momentum=0.9, output_stride=stride)
    for stride in (None, 8, 16)
}
REFERENCES = {
    stride: functools.partial(reference_backbones.xception, middle_blocks=1, output_stride=stride)
    for stride in NETWORKS
}
# Output stride, size of the image, layout, and whether norms use the statistics of the batch.
ROWS = [
    (None, (32, 35), "whole", True),
    (16, (33, 33), "2x2", True),
    (8, (32, 32), "4x2", True),
    (8, (33, 33), "3x1", True),
    (16, (33, 33), "4x2", False),
    (16, (32, 32), "3x1 placement", True),
    (8, (32, 32), "2x2", False),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output_stride", "size", "layout", "is_training"),
    [pytest.param(*row, id=" ".join(map(str, row))) for row in ROWS],
)
def test_values_and_gradients_equal_plain_tensorflow(output_stride, size, layout, is_training):
    backbones.check(NETWORKS[output_stride], size, is_training, REFERENCES[output_stride], layout)


@pytest.mark.slow
def test_gathered_and_recomputed_features():
    backbone = Xception(
        base_filters=1, middle_blocks=1, norm_momentum=0.9, output_stride=8, gather_below=5, recompute=True
    )
    program = backbones.check(backbone, (33, 32), True, REFERENCES[8], "2x2")
    # Slices of 17 and 16 pixels, 9 and 8 after the stem, 5 and 4 after the first entry block.
    assert [change.name for change in program.changes] == ["xception/entry0_gather", "xception/entry1_gather"]
