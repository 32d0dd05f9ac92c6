"""The settings of DeepLab, its choice of gathered dimensions, and the loss of semantic segmentation."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.jobs.steps.costs import explain_step
from mtf_imaging.jobs.steps.recomputation import recompute_setting
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.deeplab.gathering import halos_exceed_map
from mtf_imaging.models.resnet import ResNetBackbone
from mtf_imaging.planner.render.text import text
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import TrainingStep
from tests.models import reference_deeplab
from tests.models.tiny_backbone import TinyBackbone

TINY = TinyBackbone()
SIXTEENTH = TinyBackbone(16)


def pixel_task(**kwargs):
    """Returns a task whose network is a 1 x 1 convolution, with the weights `weights`."""
    return SemanticSegmentation(_pixel_network, **kwargs)


def _pixel_network(image, is_training):
    del is_training
    channels, classes = image.shape.dims[-1], mi.mtf.Dimension("classes", 3)
    dtype = mi.ops.master_dtype(image.dtype)
    weights = mi.mtf.get_variable(image.mesh, "weights", mi.mtf.Shape([channels, classes]), dtype=dtype)
    return mi.mtf.einsum(
        [image, mi.mtf.cast(weights, image.dtype)], output_shape=mi.mtf.Shape([*image.shape.dims[:-1], classes])
    )


@pytest.fixture(scope="module")
def program():
    """A program that computes the loss of `pixel_task`, split unevenly."""
    task = pixel_task(classes=3)

    def fn(**inputs):
        loss, measures = task.loss(**inputs)
        (weights,) = loss.graph.trainable_variables
        return {"loss": loss, **measures, "gradient": mi.mtf.gradients([loss], [weights.outputs[0]])[0]}

    inputs = task.inputs(2, (5, 4), tf.float64)
    return mi.Program(fn, inputs, "rows:2,cols:3", "height:rows,width:cols", "stacked")


@pytest.mark.parametrize("ignored", [0.0, 0.3, 1.0])
def test_the_loss_is_the_mean_over_the_pixels_that_count(program, ignored):
    rng = np.random.default_rng(0)
    image, labels = rng.standard_normal((2, 5, 4, 3)), rng.integers(0, 3, (2, 5, 4)).astype(np.int32)
    labels[rng.random(labels.shape) < ignored] = 255
    weights = tf.constant(program.variables["weights"])
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss, accuracy = reference_deeplab.loss(tf.constant(image) @ weights, labels, 255)
    got = program(image=image, labels=labels)
    np.testing.assert_allclose(got["loss"], loss, rtol=1e-12)
    np.testing.assert_allclose(got["pixel_accuracy"], accuracy, rtol=1e-12)
    np.testing.assert_allclose(got["gradient"], tape.gradient(loss, weights), rtol=0, atol=1e-12)
    assert (float(got["loss"]) == 0) == (ignored == 1)


def test_the_loss_of_bfloat16_activations_is_float32():
    task = SemanticSegmentation(DeepLab(TINY, filters=2, rates=(1,), decoder_filters=2), classes=3)
    outputs = trace_only(task.loss, task.inputs(2, (8, 8), tf.bfloat16)).outputs
    assert [x.dtype for x in tf.nest.flatten(outputs)] == [tf.float32, tf.float32]
    logits = trace_only(
        lambda image: task.network(image, True), task.inputs(2, (8, 8), tf.bfloat16, labels=False)
    ).outputs
    assert logits.dtype == tf.float32


@dataclasses.dataclass(frozen=True)
class Photos:
    """A description of photos, with the attributes that the task reads."""

    classes: tuple[str, ...]
    ignore_label: int


def test_the_classes_follow_from_the_data_set():
    task = SemanticSegmentation(DeepLab(TINY))
    other = task.for_data(Photos(("background", "road", "car"), 9))
    assert (other.classes, other.ignore_label) == (3, 9)
    assert (task.classes, task.ignore_label) == (21, 255)
    logits = trace_only(other.predict, other.inputs(1, (8, 8), labels=False)).outputs
    assert logits.shape.dims[-1].size == 3
    with pytest.raises(mi.ConfigError, match="the network has 4 classes, but this task needs 3"):
        SemanticSegmentation(DeepLab(TINY, classes=4), classes=4).for_data(Photos(("a", "b", "c"), 9))


def test_a_data_set_of_volumes_is_refused():
    description = mi.data.Description(("ct",), {"liver": 1}, {"liver": (1,)})
    with pytest.raises(mi.ConfigError, match=r"data set of photos, but the data set has a Description\. Fix"):
        SemanticSegmentation(DeepLab(TINY)).for_data(description)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DeepLab(TinyBackbone(None)),
            "DeepLab.backbone: its output_stride is None, but DeepLab needs a fixed one. Fix: set "
            "TinyBackbone.output_stride to 16",
        ),
        (
            lambda: pixel_task(ignore_label=20),
            "SemanticSegmentation.ignore_label = 20: it is one of the classes 0 to 20. Fix: use 255, or 21 or more.",
        ),
        (lambda: pixel_task().inputs(1, (8, 8, 8)), "must have 2 sizes, height, width, not 3: (8, 8, 8). Fix"),
        (
            lambda: SemanticSegmentation(DeepLab(TINY, classes=3)).inputs(1, (8, 8)),
            "the network has 3 classes, but this task needs 21. Fix",
        ),
        (
            lambda: trace_only(pixel_task(classes=4).loss, pixel_task(classes=4).inputs(1, (8, 8))),
            "the network has 3 classes, but this task needs 4. Fix",
        ),
    ],
)
def test_invalid_settings(make, message):
    with pytest.raises(mi.MtfImagingError, match=re.escape(message)):
        make()


def test_the_rates_follow_from_the_output_stride():
    assert DeepLab(TinyBackbone(16)).atrous_rates == (6, 12, 18)
    assert DeepLab(TinyBackbone(8)).atrous_rates == (12, 24, 36)
    assert DeepLab(TinyBackbone(8), rates=[1]).atrous_rates == (1,)


@pytest.mark.parametrize(
    ("size", "parts", "rates", "exceed"),
    [
        # Received pixels of all slices by hand. 33 in slices of 17 and 16: 2 x 6 + 2 x 12 + 16 + 17 > 33
        (33, 2, (6, 12, 18), True),
        # 71 in slices of 36 and 35: 2 (6 + 12 + 18) > 71. With 72 pixels, both are equal.
        (71, 2, (6, 12, 18), True),
        (72, 2, (6, 12, 18), False),
        # 33 in slices of 9, 9, 9 and 6: 6 x 6 = 36 < 3 x 33
        (33, 4, (6,), False),
        (512, 4, (6, 12, 18), False),
        (9, 1, (6, 12, 18), False),
    ],
)
def test_halos_that_exceed_the_map(size, parts, rates, exceed):
    assert halos_exceed_map(size, parts, rates, 2048, 256) == exceed


def test_separable_convolutions_send_all_channels_backward():
    # Forward 2 (6 + 12 + 18) = 72 pixels of 2048 channels against 80; backward of 2048 against 256 channels.
    assert not halos_exceed_map(80, 2, (6, 12, 18), 2048, 256, separable=False)
    assert halos_exceed_map(80, 2, (6, 12, 18), 2048, 256, separable=True)


@pytest.mark.parametrize(
    ("sizes", "gather_below", "gathered"),
    [
        ((513, 513), None, "height and width: slices of 2 x 17 x 17 x 5 become 2 x 33 x 33 x 5 (43,560 bytes)"),
        ((513, 1153), None, "height: slices of 2 x 17 x 37 x 5 become 2 x 33 x 37 x 5 (48,840 bytes)"),
        ((1153, 1153), None, ""),
        ((513, 513), 0, ""),
        ((513, 513), 17, ""),
        ((513, 1153), 18, "height: slices of 2 x 17 x 37 x 5 become 2 x 33 x 37 x 5 (48,840 bytes)"),
    ],
)
def test_explain_shows_the_gathered_dimensions(sizes, gather_below, gathered):
    network = DeepLab(
        SIXTEENTH, filters=2, low_level_filters=2, decoder_filters=2, decoder_convs=1, gather_below=gather_below
    )
    step = TrainingStep(SemanticSegmentation(network), SGD(0.1), sizes, 2, 1, "float32", 0)
    out = text(explain_step(step, Layout.parse("rows:2,cols:2", "height:rows,width:cols")))
    assert re.findall("deeplab/aspp_gather gathers (.*)", out) == [gathered] * bool(gathered)


def test_explain_compares_recomputation_in_the_backbone():
    backbone = ResNetBackbone(blocks=(1, 1, 1), base_filters=4, output_stride=8, recompute=True)
    step = TrainingStep(
        SemanticSegmentation(DeepLab(backbone, filters=4, decoder_filters=4)), SGD(), (33, 33), 2, 1, "float32", 0
    )
    explained = explain_step(step, Layout.parse("rows:2", "height:rows"))
    assert explained.recomputes
    assert explained.recomputed.peak.nbytes < explained.kept.peak.nbytes
    assert recompute_setting(step.task) == "ResNetBackbone.recompute"
    assert recompute_setting(pixel_task()) is None
