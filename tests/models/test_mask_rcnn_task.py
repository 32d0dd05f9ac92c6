"""The settings and the parameters of Mask R-CNN, the inputs of instance segmentation, and what `explain` shows."""

import dataclasses
import re

import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.jobs.steps.costs import explain_step
from mtf_imaging.jobs.steps.recomputation import recompute_setting
from mtf_imaging.models.detection import InstanceSegmentation, MaskRCNN
from mtf_imaging.models.resnet import ResNetBackbone
from mtf_imaging.planner.render.text import text
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import TrainingStep
from tests.models.programs import MASK_RCNN as SMALL
from tests.models.programs import mask_rcnn_task as small_task
from tests.models.tiny_backbone import TinyBackbone


def conv(size, inputs, outputs):
    """Returns the weights of a convolution with a bias."""
    return size**2 * inputs * outputs + outputs


def resnet_50():
    """Returns the weights of the backbone; each convolution has a norm with two weights per filter and no bias."""
    total, inputs = conv(7, 3, 64) + 64, 64
    for filters, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convs = [(1, inputs, filters), (3, filters, filters), (1, filters, 4 * filters)]
            convs += [(1, inputs, 4 * filters)] * (block == 0)
            total += sum(conv(*each) + each[2] for each in convs)
            inputs = 4 * filters
    return total


BY_FORMULA = {
    "resnet": resnet_50(),
    "fpn": sum(conv(1, inputs, 256) for inputs in (256, 512, 1024, 2048)) + 5 * conv(3, 256, 256),
    "rpn": conv(3, 256, 256) + conv(1, 256, 3) + conv(1, 256, 12),
    "box_head": conv(7, 256, 1024) + conv(1, 1024, 1024) + conv(1, 1024, 91) + conv(1, 1024, 4 * 91),
    "mask_head": 4 * conv(3, 256, 256) + conv(2, 256, 256) + conv(1, 256, 91),
}


def parameters(task):
    variables = trace_only(task.loss, task.inputs(1, (64, 64))).graph.trainable_variables
    groups = dict.fromkeys(BY_FORMULA, 0)
    for variable in variables:
        groups[variable.name.partition("/")[0]] += variable.shape.size
    return groups


@pytest.mark.slow
def test_parameters_of_the_published_network():
    """The published counts include batch norms of the levels, which are 2,560 weights."""
    counted = parameters(InstanceSegmentation(MaskRCNN(ResNetBackbone())))
    assert counted == BY_FORMULA
    counted["fpn"] += 5 * 2 * 256
    assert {name: f"{number / 1e6:.2f}" for name, number in counted.items()} == {
        "resnet": "23.51",
        "fpn": "3.94",
        "rpn": "0.59",
        "box_head": "14.36",
        "mask_head": "2.65",
    }
    assert f"{sum(counted.values()) / 1e6:.2f}" == "45.05"


def test_inputs():
    task = small_task()
    assert task.inputs(2, (33, 22), "bfloat16") == {
        "image": ("batch:2,height:33,width:22,channels:3", "bfloat16"),
        "boxes": ("batch:2,boxes:4,coords:4", tf.float32),
        "classes": ("batch:2,boxes:4", tf.int32),
        "masks": ("batch:2,boxes:4,mask_height:6,mask_width:6", tf.float32),
    }
    assert list(task.inputs(1, (8, 8), labels=False)) == ["image"]


@dataclasses.dataclass(frozen=True)
class Description:
    """A description with the attribute of objects that the task reads."""

    categories: tuple


def test_the_classes_follow_from_the_data_set():
    task = InstanceSegmentation(SMALL, max_boxes=2, rois=8, proposals=8).for_data(Description(((1, "a"), (7, "b"))))
    assert task.classes == 2
    outputs = trace_only(task.predict, task.inputs(1, (16, 16), labels=False)).outputs
    assert {name: x.shape.to_integer_list for name, x in outputs.items()} == {
        "boxes": [1, 100, 4],
        "scores": [1, 100],
        "classes": [1, 100],
        "masks": [1, 100, 6, 6],
    }
    assert outputs["masks"].shape.dimension_names == ["batch", "detections", "mask_height", "mask_width"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MaskRCNN(TinyBackbone(8), max_level=4),
            "MaskRCNN.roi_max_level = 5: it must be a level of the feature pyramid, from 2 to 4. Fix",
        ),
        (
            lambda: InstanceSegmentation(SMALL, foreground=0.1, rois=4),
            "InstanceSegmentation.foreground = 0.1: with rois = 4, no RoI is foreground, so the masks cannot be",
        ),
        (
            lambda: small_task().inputs(1, (8, 8, 8)),
            "an image must have 2 sizes, height, width, not 3: (8, 8, 8). Fix",
        ),
        (
            lambda: small_task(classes=2).inputs(1, (8, 8)),
            "InstanceSegmentation.network: the network has 2 classes, but this task needs 3. Fix",
        ),
        (lambda: small_task().for_data(3), "InstanceSegmentation needs a data set of objects"),
    ],
)
def test_invalid_settings(make, message):
    with pytest.raises(mi.MtfImagingError, match=re.escape(message)):
        make()


@pytest.mark.slow
def test_explain_shows_what_is_split_and_gathered():
    """The heads of RoIs are split by a rule for `rois`, and no map or score of an anchor is gathered."""
    backbone = ResNetBackbone(blocks=(1, 1), bottleneck=False, base_filters=2, recompute=True)
    step = TrainingStep(small_task(backbone=backbone), SGD(0.1), (32, 32), 1, 1, "float32", 0)
    assert recompute_setting(step.task) == "ResNetBackbone.recompute"
    out = text(explain_step(step, Layout.parse("rows:2", "height:rows,rois:rows")))
    assert "box_features_scatter splits rois: slices of 1 x 12 x 3 x 3 x 3 become 1 x 6 x 3 x 3 x 3" in out
    assert "mask_features_scatter splits rois: slices of 1 x 6 x 3 x 3 x 3 become 1 x 3 x 3 x 3 x 3" in out
    assert not re.findall(r"\S+ gathers \S+", out)
