"""Programs that compute everything that `ObjectDetection` computes, for comparisons under different layouts."""

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from tests.models.deeplab_programs import assert_equal

__all__ = [
    "assert_detections",
    "assert_equal",
    "batch",
    "evaluation_program",
    "random_boxes",
    "train_program",
    "values",
]


def random_boxes(rng, number, height, width):
    """Returns boxes of various sizes, float32 [number, 4], some of which reach the border of the image."""
    sizes = np.exp(rng.uniform(np.log(3), np.log(max(height, width)), (number, 2)))
    centers = rng.uniform(0, 1, (number, 2)) * [height, width]
    corners = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1)
    return np.clip(corners, 0, [height, width, height, width]).astype(np.float32)


def batch(task, sizes, batch_size=2, seed=0):
    """Returns random images, and objects: as many as there is room for in the first image, and one in each other."""
    rng = np.random.default_rng(seed)
    boxes = np.stack([random_boxes(rng, task.max_boxes, *sizes) for _ in range(batch_size)])
    classes = rng.integers(0, task.classes, (batch_size, task.max_boxes)).astype(np.int32)
    classes[1:, 1:] = -1
    classes[:, -1] = -1
    return {"image": rng.standard_normal((batch_size, *sizes, 3)), "boxes": boxes, "classes": classes}


def train_program(task, sizes, mesh_shape="", layout="", batch_size=2, **kwargs):
    """Returns a program that computes the loss, its parts and the gradients of all weights, in float64.

    The last layers get larger weights than at the start of a training, so that all predictions differ.
    """

    def fn(**inputs):
        loss, measures = task.loss(**inputs)
        variables = loss.graph.trainable_variables
        gradients = mi.mtf.gradients([loss], [v.outputs[0] for v in variables])
        return {"loss": loss, **measures, **{v.name: g for v, g in zip(variables, gradients)}}

    program = mi.Program(fn, task.inputs(batch_size, sizes, tf.float64), mesh_shape, layout, **kwargs)
    for seed, name in enumerate(["class_head/predictions/filter", "box_head/predictions/filter"]):
        if name in program.variables:
            variable = program.variables[name]
            variable.assign(np.random.default_rng(seed).standard_normal(variable.shape) * 0.3)
    return program


def evaluation_program(task, sizes, mesh_shape="", layout="", batch_size=2, **kwargs):
    """Returns a program that predicts."""
    inputs = task.inputs(batch_size, sizes, tf.float64, labels=False)
    return mi.Program(task.predict, inputs, mesh_shape, layout, **kwargs)


def values(task, sizes, *layout, batch_size=2, evaluates=True, **kwargs):
    """Returns the results of a step in training, the moving statistics after it, and the detections.

    Args:
      task: an `ObjectDetection`.
      sizes: height and width of an image in pixels.
      *layout: the mesh shape and the layout.
      batch_size: number of images.
      evaluates: whether to compute detections.
      **kwargs: options of the programs.

    Returns:
      {"train": ..., "moving": ..., "evaluation": ...}, dicts of arrays; the variables before the step, {name: array};
      and the program of the training.
    """
    train = train_program(task, sizes, *layout, batch_size=batch_size, **kwargs)
    before = {name: value.numpy() for name, value in train.variables.items()}
    inputs = batch(task, sizes, batch_size)
    result = {"train": train(**inputs)}
    result["moving"] = {name: v for name, v in train.variables.items() if not v.trainable}
    if evaluates:
        evaluation = evaluation_program(task, sizes, *layout, batch_size=batch_size, variables=train, **kwargs)
        result["evaluation"] = evaluation(image=inputs["image"])
    results = {key: {name: value.numpy() for name, value in part.items()} for key, part in result.items()}
    return results, before, train


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
