"""Residual networks as backbones: equal to plain TensorFlow, equal under every layout, and of the published size."""

import functools

import pytest

from mtf_imaging.models.resnet import ResNetBackbone
from tests.harness import pairwise
from tests.models import backbones, reference_backbones

SMALL = {"base_filters": 2, "norm_momentum": 0.9}
BETA = ResNetBackbone(**SMALL, blocks=(1, 2, 1, 3), stem="v1-beta", output_stride=16)
NETWORKS = {
    "v1-beta 16": BETA,
    "7x7 8": ResNetBackbone(**SMALL, blocks=(1, 1, 2, 2), output_stride=8),
    "v1-beta 8 basic": ResNetBackbone(
        **SMALL, blocks=(1, 1, 2, 2), bottleneck=False, stem="v1-beta", output_stride=8, multigrid=(2, 1)
    ),
    "7x7 32 same": ResNetBackbone(**SMALL, blocks=(1, 2, 1, 1), padding="same"),
}
SPLITS = {
    "2x2": ("rows:2,cols:2", "height:rows,width:cols"),
    "4x2": ("rows:4,cols:2", "height:rows,width:cols"),
    "3x1": ("rows:3", "height:rows"),
}


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("size", [(33, 32), (24, 35)], ids=str)
@pytest.mark.parametrize("network", NETWORKS)
def test_values_and_gradients_equal_plain_tensorflow(network, size, is_training):
    backbone = NETWORKS[network]
    reference = functools.partial(
        reference_backbones.resnet,
        blocks=backbone.blocks,
        output_stride=backbone.output_stride,
        multigrid=backbone.multigrid,
    )
    backbones.check_reference(backbone, size, is_training, reference)


SPLIT_CASES = [
    (network, size, split, mesh_impl, is_training)
    for network in ("v1-beta 16", "7x7 8")
    for size in ((33, 33), (32, 32))
    for split in SPLITS
    for mesh_impl in ("stacked", "placement")
    for is_training in (True, False)
]


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize(("network", "size", "split", "mesh_impl", "is_training"), pairwise(SPLIT_CASES), ids=str)
def test_values_and_gradients_do_not_depend_on_the_layout(network, size, split, mesh_impl, is_training):
    backbones.check_layout(NETWORKS[network], size, is_training, *SPLITS[split], mesh_impl)
