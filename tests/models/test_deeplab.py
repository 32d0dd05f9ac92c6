"""DeepLab equals a network in plain TensorFlow, and its results do not depend on the layout."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from tests.models import reference_deeplab
from tests.models.programs import IGNORED, assert_equal, evaluation_program, segmentation_batch, train_program, values
from tests.models.tiny_backbone import TinyBackbone

# A rate of 6 reaches past the next slice of a map of 9 pixels in slices of 5 and 4, as 18 does in a map of 33.
SMALL = DeepLab(
    TinyBackbone(),
    filters=4,
    rates=(2, 6),
    low_level_filters=2,
    decoder_filters=3,
    decoder_convs=1,
    dropout_rate=0.25,
    norm_momentum=0.5,
    gather_below=0,
)


def small_task(**kwargs):
    return SemanticSegmentation(dataclasses.replace(SMALL, **kwargs), classes=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((33, 22), {"backbone": TinyBackbone(8), "decoder_convs": 2}),
        ((32, 33), {"separable": True}),
    ],
    ids=["plain", "separable"],
)
def test_values_and_gradients_equal_plain_tensorflow(sizes, options):
    task = small_task(dropout_rate=0.0, **options)
    inputs, program = segmentation_batch(task, sizes), train_program(task, sizes)
    evaluation = evaluation_program(task, sizes, gradients=True, variables=program)
    weights = {name: tf.constant(v) for name, v in program.variables.items()}
    want = {"train": {}, "evaluation": {}}
    trainable = [name for name, v in program.variables.items() if v.trainable]
    for key in want:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            network = reference_deeplab.Reference(weights, task.network, is_training=key == "train")
            features = task.network.backbone.reference(inputs["image"], weights)
            logits = network.logits(inputs["image"], *features)
            if key == "train":
                loss, accuracy = reference_deeplab.loss(logits, inputs["labels"], IGNORED)
                outputs, moving = {"loss": loss, "pixel_accuracy": accuracy}, network.moving
            else:
                outputs = {"probabilities": tf.nn.softmax(logits)}
                loss = tf.reduce_sum(outputs["probabilities"] ** 2)
        gradients = tape.gradient(loss, {name: weights[name] for name in trainable})
        want[key] = {name: value.numpy() for name, value in {**outputs, **gradients}.items()}
        weights.update({name: tf.constant(value) for name, value in moving.items()})
    want["moving"] = {name: value.numpy() for name, value in moving.items()}
    got = {
        "train": program(**inputs),
        "moving": {name: v for name, v in program.variables.items() if not v.trainable},
        "evaluation": evaluation(image=inputs["image"]),
    }
    assert_equal({key: {name: v.numpy() for name, v in part.items()} for key, part in got.items()}, want)


def test_the_resize_of_the_reference():
    x = np.random.default_rng(0).random((1, 5, 4, 2))
    like = np.zeros((1, 17, 9, 1))
    want = tf.compat.v1.image.resize(x, like.shape[1:3], align_corners=True)
    np.testing.assert_allclose(reference_deeplab.resized(tf.constant(x), like), want, rtol=1e-5)


@functools.cache
def whole(sizes, **options):
    task = small_task(**options)
    return values(task, segmentation_batch(task, sizes))[0]


GATHERED = ["deeplab/aspp_gather", "deeplab/aspp_scatter"]


_2X2, _4X2 = ("rows:2,cols:2", "height:rows,width:cols"), ("rows:4,cols:2", "height:rows,width:cols")
# Maps of 9 x 9 pixels for 33 x 33: slices of 5 and 4, of 3, and of 3, 3, 3 and 0; maps of 8 x 8 pixels for 32 x 32.
QUICK = [
    ((33, 33), {"gather_below": None}, "rows:3,cores:2", "width:rows,batch:cores", "placement", GATHERED),
]
SLOW = [
    ((33, 33), {}, *_2X2, "stacked", []),
    ((33, 33), {}, *_2X2, "placement", []),
    ((33, 33), {}, *_4X2, "stacked", []),
    ((33, 33), {}, "rows:3", "height:rows", "placement", []),
    ((33, 33), {"gather_below": None}, *_2X2, "stacked", GATHERED),
    ((33, 33), {"gather_below": 4}, *_4X2, "placement", GATHERED),
    ((32, 32), {}, *_2X2, "placement", []),
    ((32, 32), {}, *_4X2, "stacked", []),
    ((32, 32), {"gather_below": None}, "rows:3,model:2", "height:rows,channels:model", "stacked", GATHERED),
    ((32, 33), {"separable": True}, *_2X2, "stacked", []),
    ((32, 33), {"separable": True}, "rows:3,model:2", "width:rows,channels:model", "placement", []),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "options", "mesh_shape", "layout", "mesh_impl", "changes"),
    [*QUICK, *SLOW],
)
def test_results_do_not_depend_on_the_layout(sizes, options, mesh_shape, layout, mesh_impl, changes):
    """Compares training with dropout, moving statistics, and evaluation."""
    task = small_task(**options)
    got, _, program = values(task, segmentation_batch(task, sizes), mesh_shape, layout, mesh_impl=mesh_impl)
    of_space = [change.name for change in program.changes if "channels" not in change.gathered]  # of concatenations
    assert of_space == changes
    separable = {key: value for key, value in options.items() if key == "separable"}
    assert_equal(got, whole(sizes, **separable))


def test_a_dimension_that_the_backbone_gathers_is_split_again_for_the_decoder():
    program = mi.Program(
        small_task(backbone=GatheringBackbone(TinyBackbone()), gather_below=None).predict,
        {"image": "batch:1,height:32,width:32,channels:3"},
        "rows:2,cols:2",
        "height:rows,width:cols",
        "stacked",
    )
    assert [str(change) for change in program.changes][2:] == [
        "deeplab/low_level_scatter splits height: slices of 1 x 8 x 4 x 4 become 1 x 4 x 4 x 4 (256 bytes)",
        "deeplab/aspp_gather gathers width: slices of 1 x 8 x 4 x 5 become 1 x 8 x 8 x 5 (1,280 bytes)",
        "deeplab/aspp_scatter splits height and width: slices of 1 x 8 x 8 x 4 become 1 x 4 x 4 x 4 (256 bytes)",
    ]


@dataclasses.dataclass(frozen=True)
class GatheringBackbone:
    """A backbone whose features are gathered along the height."""

    backbone: TinyBackbone
    output_stride = 4

    def features(self, image, is_training):
        features = self.backbone.features(image, is_training)
        return [mi.ops.gather_slices(x, "height", f"feature{i}_gather") for i, x in enumerate(features)]
