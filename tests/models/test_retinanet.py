"""RetinaNet equals a network in plain TensorFlow, and its results do not depend on the layout."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.models.detection import Anchors, ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import ResNetBackbone
from tests.models import reference_detection
from tests.models.programs import assert_detections, assert_equal, object_batch, values
from tests.models.tiny_backbone import TinyBackbone

# Maps of 9 x 6, 5 x 3, 3 x 2 and 2 x 1 pixels for 33 x 22.
SMALL = RetinaNet(
    TinyBackbone(8),
    filters=4,
    head_convs=1,
    min_level=2,
    max_level=5,
    anchors=Anchors(scales=(1.0, 1.6), ratios=(0.5, 2.0), size=2.0),
    norm_momentum=0.5,
)
SIZES = (33, 22)
_2X2, _4X2 = ("rows:2,cols:2", "height:rows,width:cols"), ("rows:4,cols:2", "height:rows,width:cols")
_8X1 = ("rows:8", "height:rows")


def small_task(**kwargs):
    network = dataclasses.replace(SMALL, **kwargs)
    return ObjectDetection(network, 3, max_boxes=6, candidates=40, score_threshold=0.005, max_detections=8)


def results(task, *layout, **options):
    return values(task, object_batch(task, SIZES), *layout, **options)


@functools.cache
def whole():
    """Returns the results without a layout, and the variables before the step."""
    return results(small_task())[:2]


@pytest.mark.slow
def test_training_equals_the_reference():
    task, (got, before) = small_task(), whole()
    inputs, weights = object_batch(task, SIZES), {name: tf.constant(value) for name, value in before.items()}
    anchors = reference_detection.network_anchors(task.network, *SIZES)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        network = reference_detection.Reference(weights, task.network, is_training=True)
        features = task.network.backbone.reference(inputs["image"], weights)
        predictions = network.predictions(features, task.classes)
        objects = inputs["boxes"].astype(np.float64), inputs["classes"]
        class_loss, box_loss = reference_detection.losses(task, predictions, anchors, *objects)
        loss = class_loss + task.box_loss_weight * box_loss
    trained = {name: weights[name] for name in got["train"] if name in weights}
    outputs = {"loss": loss, "class_loss": class_loss, "box_loss": box_loss, **tape.gradient(loss, trained)}
    want = {"train": outputs, "moving": network.moving}
    want = {key: {name: value.numpy() for name, value in part.items()} for key, part in want.items()}
    assert_equal({key: got[key] for key in want}, want)


@pytest.mark.slow
def test_detections_equal_the_reference():
    task, (got, before) = small_task(), whole()
    weights = {name: tf.constant(value) for name, value in {**before, **got["moving"]}.items()}
    network = reference_detection.Reference(weights, task.network, is_training=False)
    features = task.network.backbone.reference(object_batch(task, SIZES)["image"], weights)
    predictions = network.predictions(features, task.classes)
    anchors = reference_detection.network_anchors(task.network, *SIZES)
    want = reference_detection.detections(task, predictions, anchors, *SIZES)
    assert max(len(image) for image in want) == task.max_detections, "the test needs many detections"
    assert_detections(got["evaluation"], want)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "mesh_shape", "layout", "mesh_impl", "changes"),
    [
        ({}, *_4X2, "stacked", []),
        ({}, *_2X2, "placement", []),
        ({}, *_8X1, "stacked", []),
        # Levels of 5 x 3 and 3 x 2 pixels in 2 x 2 slices.
        (
            {"gather_below": 3},
            "rows:2,cols:2,cores:2",
            "height:rows,width:cols,batch:cores",
            "stacked",
            ["fpn/level3_gather", "fpn/level4_gather"],
        ),
    ],
)
def test_results_do_not_depend_on_the_layout(options, mesh_shape, layout, mesh_impl, changes):
    """Compares losses, gradients, moving statistics and detections."""
    got, _, program = results(small_task(**options), mesh_shape, layout, mesh_impl=mesh_impl)
    assert [change.name for change in program.changes] == changes
    assert_equal(got, whole()[0])


@pytest.mark.slow
def test_features_that_the_backbone_gathers_are_split_again():
    backbone = ResNetBackbone(blocks=(1, 1, 1), base_filters=2, bottleneck=False, norm_momentum=0.5)

    def task(**kwargs):
        return small_task(backbone=dataclasses.replace(backbone, **kwargs), min_level=3, max_level=4)

    got, _, program = results(task(gather_below=2), *_4X2, mesh_impl="stacked", evaluates=False)
    assert [change.name for change in program.changes] == ["resnet/stage2/block0_gather", "fpn/repeat3_scatter"]
    assert_equal(got, results(task(), evaluates=False)[0])
