"""A minimal task for the tests of training, a weighted sum that should equal a target, and runs that train it."""

import itertools

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.loop import train
from mtf_imaging.training.step import training_step


class Linear:
    """`loss = mean (dropout(image) weights - target)^2`, over `image[batch, x]`."""

    def __init__(self, dropout_rate=0.0, name="linear", size=8):
        self.dropout_rate, self.name, self.size = dropout_rate, name, size

    def inputs(self, batch_size, sizes=None, labels=True):
        return {
            "image": (f"batch:{batch_size},x:{self.size}", tf.float64),
            "target": (f"batch:{batch_size}", tf.float64),
        }

    def loss(self, image, target):
        weights = mi.mtf.get_variable(
            image.mesh,
            f"{self.name}/weights",
            mi.mtf.Shape(image.shape.dims[1:]),
            dtype=image.dtype,
            initializer=tf.compat.v1.random_normal_initializer(),
        )
        kept = mi.ops.dropout(image, self.dropout_rate, name="kept")
        error = mi.mtf.reduce_sum(kept * weights, output_shape=target.shape) - target
        loss = mi.mtf.reduce_mean(mi.mtf.square(error))
        return loss, {"error": mi.mtf.reduce_mean(error)}


def program(optimizer, mesh_shape="", layout="", task=None, average_decay=None, **kwargs):
    task = task or Linear()
    step = training_step(task, optimizer, average_decay=average_decay)
    return mi.Program(step, task.inputs(2), mesh_shape=mesh_shape, layout=layout, **kwargs)


def batches(start, size=8):
    """Yields batches; batch k depends only on k."""
    step = start
    while True:
        rng = np.random.default_rng(step)
        yield {"image": rng.normal(size=(2, size)), "target": rng.normal(size=2), "cases": [f"{step}a", f"{step}b"]}
        step += 1


def take(number, start=0):
    """Yields the inputs of `number` batches, without their cases."""
    for _, batch in zip(range(number), batches(start)):
        yield {"image": batch["image"], "target": batch["target"]}


class Killed(Exception):
    """A run ends, as if its process was killed."""


def killed_at(step):
    """Returns a `batches` function that raises `Killed` before `step`."""

    def killed(start):
        yield from itertools.islice(batches(start), step - start)
        raise Killed

    return killed


def run(folder, num_steps, program, observers=lambda checkpoints: [], batches=batches, every=3, **options):
    """Starts or resumes the run in a folder, as a new process would.

    Args:
      folder: the folder.
      num_steps: number of steps of the whole run.
      program: a new program.
      observers: a function that returns the observers, given the `Checkpoints`.
      batches, every, **options: arguments of `Checkpoints` and `train`.

    Returns:
      The program.
    """
    checkpoints = Checkpoints(folder, program, every=every)
    checkpoints.restore()
    options |= {"checkpoints": checkpoints, "observers": observers(checkpoints), "progress": False}
    train(program=program, batches=batches, num_steps=num_steps, **options)
    return program
