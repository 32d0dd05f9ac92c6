"""The settings of RetinaNet and of the detection of objects, its dtypes, and its losses in micro-batches."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.jobs.steps.costs import explain_step
from mtf_imaging.models.detection import Anchors, ObjectDetection, RetinaNet
from mtf_imaging.models.detection.fpn import FeaturePyramid
from mtf_imaging.models.resnet import ResNetBackbone
from mtf_imaging.planner.render.text import text
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import TrainingStep, training_step
from tests.models.programs import object_batch
from tests.models.tiny_backbone import TinyBackbone

TINY = TinyBackbone(8)
SMALL = RetinaNet(TINY, filters=2, head_convs=1, min_level=2, max_level=4, anchors=Anchors((1.0,), (1.0,)))


@pytest.mark.slow
@dataclasses.dataclass(frozen=True)
class NoNorms:
    """A network without batch norms, whose micro-batches are exact."""

    pyramid = FeaturePyramid(filters=8, min_level=2, max_level=4, norm=False)
    anchors = Anchors(scales=(1.0,), ratios=(0.5, 1.0))

    def __call__(self, image, is_training):
        levels = self.pyramid(TINY.features(image, is_training), is_training)
        names = [mi.mtf.Dimension("anchors", 2), mi.mtf.Dimension("coords", 4)]
        deltas = [mi.mtf.reshape(x, mi.mtf.Shape([*x.shape.dims[:-1], *names])) for x in levels]
        return [(mi.mtf.rename_dimension(x, "coords", "classes"), x) for x in deltas]

    def anchor_boxes(self, predictions, image_sizes):
        levels = enumerate(predictions, 2)
        return [self.anchors.boxes(deltas, 2**level, image_sizes) for level, (_, deltas) in levels]


_SPLIT = Layout.parse("rows:3,cores:2", "height:rows,batch:cores")


@pytest.mark.slow
@pytest.mark.parametrize("layout", [{}, {"layout": _SPLIT}])
def test_micro_batches_train_like_the_whole_batch(layout):
    task, sizes, optimizer = ObjectDetection(NoNorms(), 4, max_boxes=4), (20, 12), SGD(0.1)
    inputs = task.inputs(4, sizes, tf.float64)
    data = object_batch(task, sizes, 4)
    whole = mi.Program(training_step(task, optimizer), inputs, seed=3, **layout)
    want = whole(**data)
    step = MicroBatches(task, optimizer, part_inputs(inputs, 2), 2, seed=3, **layout)
    parts = {name: np.split(value, 2) for name, value in data.items()}
    got = step(parts=[{name: halves[i] for name, halves in parts.items()} for i in range(2)])
    assert {"loss", "class_loss", "box_loss"} <= want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, err_msg=name)
    for name, value in whole.variables.items():
        np.testing.assert_allclose(step.program.variables[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_batch_without_objects():
    """The boxes of padding may have any coordinates, and a batch without objects has no box loss."""
    task = ObjectDetection(NoNorms(), 4, max_boxes=3)
    program = mi.Program(task.loss, task.inputs(1, (12, 12), tf.float64))
    image = np.random.default_rng(0).standard_normal((1, 12, 12, 3))
    results = []
    for boxes in (np.zeros((1, 3, 4)), np.full((1, 3, 4), [5, 5, -3, -2])):
        loss, measures = program(image=image, boxes=boxes.astype(np.float32), classes=np.full((1, 3), -1, np.int32))
        assert float(measures["box_loss"]) == 0
        results.append(float(loss))
    assert results[0] == results[1] > 0


def test_losses_and_detections_of_bfloat16_activations_are_float32():
    task = ObjectDetection(SMALL, classes=3)
    outputs = trace_only(task.loss, task.inputs(2, (16, 16), tf.bfloat16)).outputs
    assert [x.dtype for x in tf.nest.flatten(outputs)] == [tf.float32] * 3
    outputs = trace_only(task.predict, task.inputs(2, (16, 16), tf.bfloat16, labels=False)).outputs
    assert {name: x.dtype for name, x in outputs.items()} == {
        "boxes": tf.float32,
        "scores": tf.float32,
        "classes": tf.int32,
    }


@dataclasses.dataclass(frozen=True)
class Objects:
    """A description of objects, with the attribute that the task reads."""

    categories: tuple[tuple[int, str], ...]


def test_the_classes_follow_from_the_data_set():
    task = ObjectDetection(SMALL)
    other = task.for_data(Objects(((1, "disk"), (7, "star"))))
    assert (other.classes, task.classes) == (2, 90)
    logits, _ = trace_only(
        lambda image: other.network.with_classes(2)(image, True)[0], other.inputs(2, (8, 8), labels=False)
    ).outputs
    assert logits.shape.dims[-1].size == 2
    with pytest.raises(mi.ConfigError, match="the network has 4 classes, but this task needs 2"):
        ObjectDetection(dataclasses.replace(SMALL, classes=4), 4).for_data(Objects(((1, "disk"), (7, "star"))))


def test_a_data_set_of_volumes_is_refused():
    description = mi.data.Description(("ct",), {"liver": 1}, {"liver": (1,)})
    with pytest.raises(mi.ConfigError, match=r"data set of objects, but the data set has a Description\. Fix"):
        ObjectDetection(SMALL).for_data(description)


def test_explain_shows_the_gathered_levels():
    network = dataclasses.replace(SMALL, max_level=6, gather_below=2)
    step = TrainingStep(ObjectDetection(network, classes=3, max_boxes=4), SGD(0.1), (64, 64), 2, 1, "float32", 0)
    out = text(explain_step(step, Layout.parse("rows:4", "height:rows")))
    # Level 4 has 4 pixels for 4 slices; levels 5 and 6 are computed from it.
    assert re.findall(r"fpn/level(\d)_gather gathers (\w+)", out) == [("4", "height")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RetinaNet(ResNetBackbone(output_stride=16)),
            "the levels 3 to 7 of a feature pyramid need one feature with each of the strides [8, 16], but the "
            "features of ResNetBackbone have the strides [4, 8, 16, 16]. Fix: use output_stride=None",
        ),
        (
            lambda: RetinaNet(TINY, min_level=4),
            "one feature with each of the strides [16], but the features of TinyBackbone",
        ),
        (lambda: RetinaNet(TINY, min_level=3, max_level=2), "the levels 3 to 2 of a feature pyramid"),
        (lambda: ObjectDetection(SMALL).inputs(1, (8, 8, 8)), "must have 2 sizes, height, width, not 3: (8, 8, 8)"),
        (
            lambda: ObjectDetection(dataclasses.replace(SMALL, classes=3)).inputs(1, (8, 8)),
            "the network has 3 classes, but this task needs 90. Fix",
        ),
        (
            lambda: trace_only(ObjectDetection(NoNorms(), 3).loss, ObjectDetection(NoNorms(), 3).inputs(1, (8, 8))),
            "the network has 4 classes, but this task needs 3. Fix",
        ),
    ],
)
def test_invalid_settings(make, message):
    with pytest.raises(mi.MtfImagingError, match=re.escape(message)):
        make()
