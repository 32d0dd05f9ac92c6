"""Programs that compute everything that DeepLab computes, for comparisons under different layouts."""

import numpy as np
import tensorflow as tf

import mtf_imaging as mi

IGNORED = 255


def batch(task, sizes, batch_size=2, seed=0):
    """Returns a random image, and random labels of which a rectangle and some single pixels are ignored."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, task.classes, (batch_size, *sizes)).astype(np.int32)
    labels[0, :5] = IGNORED
    labels[rng.random(labels.shape) < 0.1] = IGNORED
    return {"image": rng.standard_normal((batch_size, *sizes, 3)), "labels": labels}


def train_program(task, sizes, mesh_shape="", layout="", batch_size=2, **kwargs):
    """Returns a program that computes the loss, the accuracy and the gradients of all weights, in float64."""

    def fn(**inputs):
        loss, measures = task.loss(**inputs)
        return {"loss": loss, **measures, **_gradients(loss)}

    return mi.Program(fn, task.inputs(batch_size, sizes, tf.float64), mesh_shape, layout, **kwargs)


def evaluation_program(task, sizes, mesh_shape="", layout="", batch_size=2, gradients=True, **kwargs):
    """Returns a program that predicts, and computes the gradients of the sum of the squared probabilities."""

    def fn(image):
        probabilities = task.predict(image)
        loss = mi.mtf.reduce_sum(mi.mtf.square(probabilities))
        return {"probabilities": probabilities, **(_gradients(loss) if gradients else {})}

    return mi.Program(fn, task.inputs(batch_size, sizes, tf.float64, labels=False), mesh_shape, layout, **kwargs)


def values(task, sizes, *layout, batch_size=2, evaluation_gradients=False, **kwargs):
    """Returns the results of a step in training, the moving statistics after it, and the results of evaluation.

    Args:
      task: a `SemanticSegmentation`.
      sizes: height and width of an image in pixels.
      *layout: the mesh shape and the layout.
      batch_size: number of images.
      evaluation_gradients: whether the evaluation computes gradients, which take as long to build as those of training.
      **kwargs: options of the programs.

    Returns:
      {"train": ..., "moving": ..., "evaluation": ...}, dicts of arrays; and the program of the training.
    """
    train = train_program(task, sizes, *layout, batch_size=batch_size, **kwargs)
    inputs = batch(task, sizes, batch_size)
    result = {"train": train(**inputs)}
    result["moving"] = {name: v for name, v in train.variables.items() if not v.trainable}
    evaluation = evaluation_program(
        task, sizes, *layout, batch_size=batch_size, gradients=evaluation_gradients, variables=train, **kwargs
    )
    result["evaluation"] = evaluation(image=inputs["image"])
    return {key: {name: value.numpy() for name, value in part.items()} for key, part in result.items()}, train


def assert_equal(got, want):
    """Compares the results of `values` relative to the largest value of each array."""
    assert got.keys() == want.keys()
    for key in want:
        assert got[key].keys() == want[key].keys()
        for name, expected in want[key].items():
            scale = max(np.abs(expected).max(), 1e-3)
            message = f"{key}: {name}"
            np.testing.assert_allclose(got[key][name], expected, rtol=0, atol=1e-9 * scale, err_msg=message)


def _gradients(loss):
    variables = loss.graph.trainable_variables
    return {v.name: g for v, g in zip(variables, mi.mtf.gradients([loss], [v.outputs[0] for v in variables]))}
