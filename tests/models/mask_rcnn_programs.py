"""A small Mask R-CNN, and programs that compute everything that `InstanceSegmentation` computes."""

import dataclasses

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection import Anchors, InstanceSegmentation, MaskRCNN
from tests.models.tiny_backbone import TinyBackbone

# Maps at the strides 4, 8 and 16. RoIs take features from the first two.
SMALL = MaskRCNN(
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


def small_task(network=SMALL, *, rois=12, max_boxes=4, score_threshold=0.05, **kwargs):
    """Returns a task; keyword arguments are settings of the network."""
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


def batch(task, sizes, batch_size=2, seed=0):
    """Returns random images, and objects: all but one that fit in the first image, and one in each other image."""
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


def train_program(task, sizes, mesh_shape="", layout="", batch_size=2, dtype=tf.float64, **kwargs):
    """Returns a program that computes the loss, its parts and the gradients of all weights.

    The last layers get larger weights than at the start of a training, so that predictions differ.
    """

    def fn(**inputs):
        loss, measures = task.loss(**inputs)
        variables = loss.graph.trainable_variables
        gradients = mi.mtf.gradients([loss], [v.outputs[0] for v in variables])
        return {"loss": loss, **measures, **{v.name: g for v, g in zip(variables, gradients)}}

    program = mi.Program(fn, task.inputs(batch_size, sizes, dtype), mesh_shape, layout, **kwargs)
    enlarge(program)
    return program


def enlarge(program):
    """Gives the last layers of the network larger weights."""
    names = ["rpn/scores", "rpn/boxes", "box_head/classes", "box_head/boxes", "mask_head/masks"]
    for seed, name in enumerate(names):
        variable = program.variables[f"{name}/weights"]
        variable.assign(np.random.default_rng(seed).standard_normal(variable.shape) * 0.5)


def values(task, sizes, *layout, batch_size=2, predicts=True, **kwargs):
    """Returns the results of a step in training, the moving statistics after it, and the predictions.

    Args:
      task: an `InstanceSegmentation`.
      sizes: height and width of an image in pixels.
      *layout: the mesh shape and the layout.
      batch_size: number of images.
      predicts: whether to include predictions.
      **kwargs: options of the programs.

    Returns:
      {"train": ..., "moving": ..., "predictions": ...}, dicts of arrays; and the program of the training.
    """
    train, inputs = train_program(task, sizes, *layout, batch_size=batch_size, **kwargs), batch(task, sizes, batch_size)
    result = {"train": train(**inputs)}
    result["moving"] = {name: v for name, v in train.variables.items() if not v.trainable}
    if predicts:
        specs = task.inputs(batch_size, sizes, tf.float64, labels=False)
        result["predictions"] = mi.Program(task.predict, specs, *layout, variables=train, **kwargs)(
            image=inputs["image"]
        )
    return {key: {name: value.numpy() for name, value in part.items()} for key, part in result.items()}, train
