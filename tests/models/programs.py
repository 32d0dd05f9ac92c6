"""Programs that compute everything that a task for photos computes, for comparisons under different layouts."""

import dataclasses

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection import Anchors, InstanceSegmentation, MaskRCNN
from tests.models.tiny_backbone import TinyBackbone

IGNORED = 255
# The last layers of detectors: they get larger weights than at the start of a training, so that all predictions differ.
_LAST = {"class_head/predictions/filter": 0.3, "box_head/predictions/filter": 0.3}
_LAST |= dict.fromkeys((f"rpn/{name}/weights" for name in ("scores", "boxes")), 0.5)
_LAST |= dict.fromkeys((f"{name}/weights" for name in ("box_head/classes", "box_head/boxes", "mask_head/masks")), 0.5)

# A Mask R-CNN with maps at the strides 4, 8 and 16. RoIs take features from the first two.
MASK_RCNN = MaskRCNN(
    TinyBackbone(8),
    filters=3,
    max_level=4,
    anchors=Anchors(scales=(1.0,), ratios=(0.5, 1.0, 2.0), size=2.0),
    rpn_filters=3,
    roi_max_level=3,
    canonical_size=24.0,
    box_size=3,
    box_units=5,
    mask_size=3,
    mask_filters=3,
    mask_convs=1,
    norm_momentum=0.5,
)


def mask_rcnn_task(network=MASK_RCNN, *, rois=12, max_boxes=4, score_threshold=0.05, **kwargs):
    """Returns a small task; keyword arguments are settings of the network."""
    return InstanceSegmentation(
        dataclasses.replace(network, **kwargs),
        classes=3,
        max_boxes=max_boxes,
        mask_size=6,
        anchor_samples=24,
        rois=rois,
        foreground=0.5,
        train_per_level=30,
        predict_per_level=20,
        proposals=16,
        score_threshold=score_threshold,
        max_detections=6,
    )


def random_boxes(rng, number, height, width):
    """Returns boxes of various sizes, float32 [number, 4], some of which reach the border of the image."""
    sizes = np.exp(rng.uniform(np.log(3), np.log(max(height, width)), (number, 2)))
    centers = rng.uniform(0, 1, (number, 2)) * [height, width]
    corners = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1)
    return np.clip(corners, 0, [height, width, height, width]).astype(np.float32)


def segmentation_batch(task, sizes, batch_size=2, seed=0):
    """Returns random images, and random labels of which a rectangle and some single pixels are ignored."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, task.classes, (batch_size, *sizes)).astype(np.int32)
    labels[0, :5] = IGNORED
    labels[rng.random(labels.shape) < 0.1] = IGNORED
    return {"image": rng.standard_normal((batch_size, *sizes, 3)), "labels": labels}


def object_batch(task, sizes, batch_size=2, seed=0):
    """Returns random images, and objects: all but one that fit in the first image, and one in each other image."""
    rng = np.random.default_rng(seed)
    boxes = np.stack([random_boxes(rng, task.max_boxes, *sizes) for _ in range(batch_size)])
    classes = rng.integers(0, task.classes, (batch_size, task.max_boxes)).astype(np.int32)
    classes[1:, 1:] = -1
    classes[:, -1] = -1
    return {"image": rng.standard_normal((batch_size, *sizes, 3)), "boxes": boxes, "classes": classes}


def instance_batch(task, sizes, batch_size=2, seed=0):
    """Returns the same as `object_batch`, with boxes of another distribution and a random mask for each object."""
    rng = np.random.default_rng(seed)
    begin = rng.uniform(0, 0.5, (batch_size, task.max_boxes, 2)) * sizes
    boxes = np.concatenate([begin, np.minimum(begin + rng.uniform(5, 20, begin.shape), sizes)], -1)
    classes = rng.integers(0, task.classes, boxes.shape[:2]).astype(np.int32)
    classes[:, -1] = classes[1:, 1:] = -1
    return {
        "image": rng.standard_normal((batch_size, *sizes, 3)),
        "boxes": boxes.astype(np.float32),
        "classes": classes,
        "masks": rng.integers(0, 2, (*boxes.shape[:2], task.mask_size, task.mask_size)).astype(np.float32),
    }


def gradients_by_name(loss):
    """Returns the gradient of a loss with respect to each weight, {name: Tensor}."""
    variables = loss.graph.trainable_variables
    return {v.name: g for v, g in zip(variables, mi.mtf.gradients([loss], [v.outputs[0] for v in variables]))}


def enlarge(program):
    """Gives the last layers of a detector larger weights."""
    for seed, name in enumerate(name for name in _LAST if name in program.variables):
        variable = program.variables[name]
        variable.assign(np.random.default_rng(seed).standard_normal(variable.shape) * _LAST[name])


def train_program(task, sizes, mesh_shape="", layout="", batch_size=2, dtype=tf.float64, **kwargs):
    """Returns a program that computes the loss, its measures and the gradients of all weights."""

    def fn(**inputs):
        loss, measures = task.loss(**inputs)
        return {"loss": loss, **measures, **gradients_by_name(loss)}

    program = mi.Program(fn, task.inputs(batch_size, sizes, dtype), mesh_shape, layout, **kwargs)
    enlarge(program)
    return program


def evaluation_program(task, sizes, mesh_shape="", layout="", batch_size=2, gradients=False, **kwargs):
    """Returns a program that predicts, and may compute the gradients of the sum of the squared probabilities."""

    def fn(image):
        outputs = task.predict(image)
        outputs = outputs if isinstance(outputs, dict) else {"probabilities": outputs}
        if not gradients:
            return outputs
        return outputs | gradients_by_name(mi.mtf.reduce_sum(mi.mtf.square(outputs["probabilities"])))

    return mi.Program(fn, task.inputs(batch_size, sizes, tf.float64, labels=False), mesh_shape, layout, **kwargs)


def values(task, inputs, *layout, evaluates=True, evaluation_gradients=False, **kwargs):
    """Returns the results of a step in training, the moving statistics after it, and the predictions.

    Args:
      task: a task for photos.
      inputs: a batch, such as `object_batch` returns it.
      *layout: the mesh shape and the layout.
      evaluates: whether to predict.
      evaluation_gradients: whether the prediction computes gradients, which take as long to build as those of training.
      **kwargs: options of the programs.

    Returns:
      {"train": ..., "moving": ..., "evaluation": ...}, dicts of arrays; the variables before the step, {name: array};
      and the program of the training.
    """
    batch_size, *sizes, _ = inputs["image"].shape
    kwargs |= {"batch_size": batch_size}
    train = train_program(task, sizes, *layout, **kwargs)
    before = numbers(train.variables)
    result = {"train": train(**inputs)}
    result["moving"] = {name: v for name, v in train.variables.items() if not v.trainable}
    if evaluates:
        evaluation = evaluation_program(task, sizes, *layout, gradients=evaluation_gradients, variables=train, **kwargs)
        result["evaluation"] = evaluation(image=inputs["image"])
    return {key: numbers(part) for key, part in result.items()}, before, train


def assert_equal(got, want):
    """Compares the results of `values` relative to the largest value of each array."""
    assert got.keys() == want.keys()
    for key in want:
        assert_close(got[key], want[key])


def assert_close(got, want, tolerance=1e-9):
    """Compares arrays by name, relative to the largest value of each array."""
    assert got.keys() == want.keys()
    for name, expected in want.items():
        scale = max(np.abs(expected).max(), 1e-3)
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=tolerance * scale, err_msg=name)


def numbers(tensors):
    """Returns tensors by name as arrays."""
    return {name: value.numpy() for name, value in tensors.items()}


def assert_detections(got, want):
    """Asserts that detections equal those of `reference_detection.suppress`, lists of (score, class, box)."""
    for image, rows in enumerate(want):
        number = len(rows)
        np.testing.assert_allclose(got["scores"][image, :number], [score for score, _, _ in rows], rtol=1e-6)
        np.testing.assert_array_equal(got["classes"][image, :number], [label for _, label, _ in rows])
        boxes = np.reshape([box for _, _, box in rows], [number, 4])
        np.testing.assert_allclose(got["boxes"][image, :number], boxes, rtol=0, atol=1e-4)
        assert not got["scores"][image, number:].any()
        assert not got["boxes"][image, number:].any()
        assert (got["classes"][image, number:] == -1).all()
