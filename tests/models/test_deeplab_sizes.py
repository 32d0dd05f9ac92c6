"""DeepLab at the sizes of its crops, 513 and 512, with its strides and rates: split and whole results are equal."""

import functools

import pytest

from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.resnet import ResNetBackbone
from tests.models.programs import assert_equal, segmentation_batch, values

# Strides 4, 8 and 16. Almost all the time of these tests is spent on building graphs, so the network has few layers.
BACKBONE = ResNetBackbone(blocks=(1, 1, 1), base_filters=1, bottleneck=False, output_stride=16, norm_momentum=0.5)


def task(**kwargs):
    network = DeepLab(
        BACKBONE,
        filters=2,
        low_level_filters=1,
        decoder_filters=2,
        decoder_convs=1,
        norm_momentum=0.5,
        **kwargs,
    )
    return SemanticSegmentation(network, classes=2)


def results(size, *layout, **kwargs):
    own = task(**kwargs)
    return values(own, segmentation_batch(own, (size, size)), *layout, evaluation_gradients=size == 513)


@functools.cache
def whole(size):
    return results(size)[0]


# Maps of 33 x 33 pixels: slices of 17 and 16, of 11, and of 9, 9, 9 and 6. Maps of 32 x 32 pixels: slices of 16.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "mesh_shape", "layout", "gather_below"),
    [
        (513, "rows:2,cols:2", "height:rows,width:cols", 0),
        (513, "rows:4,cols:2", "height:rows,width:cols", 0),
        (513, "rows:3", "height:rows", 0),
        (512, "rows:2,cols:2", "height:rows,width:cols", None),
    ],
)
def test_crops_of_the_reference(size, mesh_shape, layout, gather_below):
    got, _, program = results(size, mesh_shape, layout, gather_below=gather_below)
    assert bool(program.changes) == (gather_below is None), "the rule gathers a map of 32 x 32 pixels"
    assert_equal(got, whole(size))
