"""A backbone with transplanted weights, losses and anchors equal those of TensorFlow's model garden."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.projects.volumetric_models.losses.segmentation_losses import SegmentationLossDiceScore
from official.vision.losses.retinanet_losses import focal_loss as reference_focal_loss
from official.vision.modeling.backbones.resnet import ResNet
from official.vision.modeling.layers.detection_generator import MultilevelDetectionGenerator
from official.vision.ops.anchor import Anchor
from official.vision.ops.spatial_transform_ops import multilevel_crop_and_resize

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.detections import non_maximum_suppression
from mtf_imaging.models.detection.losses import focal_loss
from mtf_imaging.models.resnet import WEIGHT_FORMATS, ResNetBackbone
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights

RNG = np.random.default_rng(0)
LAYOUTS = [("", ""), ("rows:2,cols:2", "height:rows,width:cols")]


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """A ResNet-50 with random norms, its checkpoint, an image, and its features."""
    shape = tf_keras.layers.InputSpec(shape=[None, 64, 96, 3])
    network = ResNet(50, shape, norm_epsilon=1e-5)  # the epsilon of its jobs, not the default of the class
    rng = np.random.default_rng(1)
    for variable in network.variables:
        if any(name in variable.name for name in ("gamma", "moving_variance")):
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
        elif any(name in variable.name for name in ("beta", "moving_mean")):
            variable.assign(rng.normal(0, 0.1, variable.shape))
    path = tf.train.Checkpoint(backbone=network).save(str(tmp_path_factory.mktemp("tf_models") / "ckpt"))
    image = rng.standard_normal((1, 64, 96, 3)).astype(np.float32)
    features = network(image, training=False)
    return path, image, [features[level].numpy() for level in sorted(features)]


@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS)
def test_a_resnet_50_with_its_weights_has_its_features(resnet, tmp_path, mesh_shape, layout):
    path, image, expected = resnet
    imported = mi.jobs.import_weights(checkpoint=path, output_dir=tmp_path / "weights", formats=WEIGHT_FORMATS)
    assert imported.file_format == "tf_vision"
    backbone = ResNetBackbone(**imported.settings)

    def fn(image):
        return {str(i): y for i, y in enumerate(backbone.features(image, is_training=False))}

    program = mi.Program(fn, {"image": ("batch:1,height:64,width:96,channels:3", tf.float32)}, mesh_shape, layout)
    InitialWeights(tmp_path / "weights").apply(program)
    found = [value.numpy() for value in program(image=image).values()]
    by_shape = {value.shape: value for value in found}
    for feature in expected:
        np.testing.assert_allclose(by_shape[feature.shape], feature, rtol=0, atol=2e-5 * np.abs(feature).max())


@pytest.mark.parametrize(("mesh_shape", "layout"), [("", ""), ("rows:3,cols:2", "x:rows,y:cols")])
def test_adaptive_dice_loss(mesh_shape, layout):
    shape = (2, 8, 6, 4)
    probabilities = RNG.dirichlet([1, 1, 1], shape)
    labels = RNG.integers(0, 3, shape).astype(np.int32)
    one_hot = tf.one_hot(labels, 3, dtype=tf.float64)
    probability = tf.constant(probabilities)
    with tf.GradientTape() as tape:
        tape.watch(probability)
        # Its normalization is computed in float32.
        loss = SegmentationLossDiceScore("adaptive")(probability, one_hot)
    expected = loss.numpy(), tape.gradient(loss, probability).numpy()

    def fn(p, t):
        loss = mi.ops.adaptive_dice_loss(p, t, p.shape.dims[-1])
        return loss, *mi.mtf.gradients([loss], [p])

    voxels = "batch:2,x:8,y:6,z:4"
    specs = {"p": (f"{voxels},classes:3", tf.float64), "t": (voxels, tf.int32)}
    for found, value in zip(
        mi.Program(fn, specs, mesh_shape, layout)(p=probabilities, t=labels), expected, strict=True
    ):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6 * np.abs(value).max())


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 1.5), (0.5, 2.0)])
def test_focal_loss(alpha, gamma):
    logits = tf.constant(RNG.normal(0, 3, (2, 6, 5)))
    classes = RNG.integers(-1, 5, (2, 6)).astype(np.int32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        expected = tf.reduce_sum(
            reference_focal_loss(logits, tf.one_hot(classes, 5, dtype=tf.float64), alpha, gamma), -1
        )
        total = tf.reduce_sum(expected)
    gradient = tape.gradient(total, logits)

    def fn(logits, classes):
        loss = focal_loss(logits, classes, alpha, gamma)
        return loss, *mi.mtf.gradients([mi.mtf.reduce_sum(loss)], [logits])

    specs = {"logits": ("batch:2,x:6,classes:5", tf.float64), "classes": ("batch:2,x:6", tf.int32)}
    found = mi.Program(fn, specs, "rows:2", "x:rows")(logits=logits, classes=classes)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [(64, 96), (72, 100)])
def test_anchors(size):
    strides = (8, 16, 32)
    expected = Anchor(3, 5, 3, [0.5, 1.0, 2.0], 4.0, size).multilevel_boxes
    for level, stride in enumerate(strides, 3):
        rows, columns = (-(-pixels // stride) for pixels in size)

        def fn(feature, stride=stride):
            return Anchors().boxes(feature, stride, size).to_boxes()

        spec = (f"batch:1,height:{rows},width:{columns},channels:1", tf.float32)
        found = mi.Program(fn, {"feature": spec}, "rows:2", "height:rows")(feature=np.zeros((1, rows, columns, 1)))
        np.testing.assert_allclose(found, tf.reshape(expected[str(level)], [rows, columns, 9, 4]), atol=1e-3)


def random_boxes(number, height, width, smallest=4):
    """Returns boxes (y0, x0, y1, x1) in an image, [1, number, 4]."""
    low = RNG.uniform(0, [height - 2 * smallest, width - 2 * smallest], (number, 2))
    high = RNG.uniform(low + smallest, [height, width])
    return np.concatenate([low, high], -1)[None].astype(np.float32)


@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS)
def test_roi_align(mesh_shape, layout):
    """Their pixel i lies at i in the coordinates of a level."""
    strides, sizes = (4, 8, 16, 32), (512, 640)
    features = {
        level: RNG.normal(size=(1, *(size // stride for size in sizes), 2)).astype(np.float32)
        for level, stride in enumerate(strides, 2)
    }
    boxes = random_boxes(30, *sizes)
    expected = multilevel_crop_and_resize({str(k): tf.constant(v) for k, v in features.items()}, boxes, 7)
    side = np.sqrt((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]))
    levels = np.clip(np.floor(np.log2(side / 224)) + 4, 2, 5).astype(np.int32) - 2
    assert len(np.unique(levels)) > 2

    def fn(boxes, levels, **features):
        return mi.ops.roi_align(list(features.values()), boxes, levels, strides, 7, aligned=False)

    specs = {
        f"level{k}": (f"batch:1,height:{v.shape[1]},width:{v.shape[2]},channels:2", tf.float32)
        for k, v in features.items()
    }
    specs |= {"boxes": ("batch:1,rois:30,coords:4", tf.float32), "levels": ("batch:1,rois:30", tf.int32)}
    program = mi.Program(fn, specs, mesh_shape, layout)
    found = program(boxes=boxes, levels=levels, **{f"level{k}": v for k, v in features.items()})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_non_maximum_suppression(threshold):
    """Their version 2 is written with other operations than the one of TensorFlow that ours calls."""
    number, classes, size = 40, 3, (64, 64)
    boxes, logits = random_boxes(number, *size), RNG.normal(0, 2, (1, number, classes)).astype(np.float32)
    options = {"nms_iou_threshold": threshold, "max_num_detections": 30, "nms_version": "v2"}
    background = np.zeros((1, number, 1), np.float32)
    expected = MultilevelDetectionGenerator(**options)(
        {"3": tf.zeros([1, number, 1, 4])},
        {"3": tf.constant(np.concatenate([background, logits], -1)[:, :, None])},
        {"3": tf.constant(boxes)},
        tf.constant([size], tf.float32),
    )

    def fn(boxes, logits):
        return non_maximum_suppression(boxes, mi.mtf.sigmoid(logits), threshold, number=30)

    specs = {"boxes": f"batch:1,top:{number},coords:4", "logits": f"batch:1,top:{number},classes:{classes}"}
    found = mi.Program(fn, specs)(boxes=boxes, logits=logits)
    valid = int(expected["num_detections"][0])
    assert 5 < valid < number
    np.testing.assert_allclose(found["scores"][0, :valid], expected["detection_scores"][0, :valid], rtol=1e-5)
    np.testing.assert_allclose(found["boxes"][0, :valid], expected["detection_boxes"][0, :valid], atol=1e-3)
    np.testing.assert_array_equal(found["classes"][0, :valid] + 1, expected["detection_classes"][0, :valid])
