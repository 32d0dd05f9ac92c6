"""Every Dice loss that a task can have, mixed with cross entropy: plain TensorFlow's values and gradients, under every
layout and in micro-batches."""

import functools
import itertools

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import Task, UNet3D
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers.optimizers import SGD
from mtf_imaging.training.step import training_step
from tests.models import reference_unet3d
from tests.models.test_unet3d import assert_equal, batch, program_of

SIZES, WEIGHTS = (8, 4, 4), (1.0, 8.0, 16.0)
CHOICES = {
    "lesion": {},
    "lesion of cases": {"dice_over": "case"},
    "lesion of the batch": {"dice_over": "batch"},
    "classes": {"dice": "classes"},
    "classes of cases, with background": {"dice": "classes", "dice_over": "case", "dice_background": True},
    "classes of the batch": {"dice": "classes", "dice_over": "batch", "dice_weight": 0.5},
    "adaptive": {"dice": "adaptive"},
    "Dice alone": {"dice": "classes", "dice_weight": 1.0, "dice_background": True},
    "cross entropy alone": {"dice_weight": 0.0},
}
NETWORK = UNet3D(base_filters=2, depth=2, norm="none", keep_prob=1.0)


def inputs():
    found = batch(SIZES)
    found["labels"][0] = np.minimum(found["labels"][0], 1)  # a case without lesions
    return found


def tf_loss(logits, labels, dice="lesion", dice_over="both", dice_background=False, dice_weight=0.2):
    """The loss in plain TensorFlow: `[batch, x, y, z, classes]` float64, `[batch, x, y, z]` -> a scalar."""
    p, t = tf.nn.softmax(logits), tf.one_hot(labels, 3, dtype=logits.dtype)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    cross_entropy = tf.reduce_mean(cross_entropy * tf.gather(tf.constant(WEIGHTS, logits.dtype), labels))
    if dice == "adaptive":
        overlap, total = tf.reduce_sum(p * t, [0, 1, 2, 3]), tf.reduce_sum(p + t, [0, 1, 2, 3])
        each = (2 * overlap + 1e-7) / (total + 1e-7)
        return (1 - dice_weight) * cross_entropy + dice_weight * (1 - tf.reduce_mean(each * tf.exp(1 - each)))
    of = slice(2 if dice == "lesion" else 0 if dice_background else 1, 3)
    axes = {"case": [[1, 2, 3]], "batch": [[0, 1, 2, 3]], "both": [[1, 2, 3], [0, 1, 2, 3]]}[dice_over]
    found = [(2 * tf.reduce_sum(p * t, a) + 0.1) / (tf.reduce_sum(p, a) + tf.reduce_sum(t, a) + 0.1) for a in axes]
    dice_loss = 1 - tf.add_n([tf.reduce_mean(each[..., of]) for each in found]) / len(found)
    return (1 - dice_weight) * cross_entropy + dice_weight * dice_loss


@functools.cache
def whole(name):
    """Values and gradients of a task without a layout, and the weights that they are at."""
    program = program_of(Task(NETWORK, **CHOICES[name]), SIZES)
    weights = {name: v.numpy() for name, v in program.variables.items() if v.trainable}
    return {name: value.numpy() for name, value in program(**inputs()).items()}, weights


@pytest.mark.parametrize("name", CHOICES)
def test_values_and_gradients_equal_plain_tensorflow(name):
    got, weights = whole(name)
    weights, given = {name: tf.constant(value) for name, value in weights.items()}, inputs()
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = reference_unet3d.logits(tf.constant(given["image"]), weights, 2, "none", 1)
        loss = tf_loss(logits, given["labels"], **CHOICES[name])
    want = {"loss": loss, **tape.gradient(loss, weights)}
    assert_equal({key: got[key] for key in want}, {key: value.numpy() for key, value in want.items()}, 1e-9)


LAYOUTS = {
    "xy batch": ("rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked"),
    "xyz": ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes", "stacked"),
    "x batch": ("rows:2,cores:2", "x:rows,batch:cores", "placement"),
}
FAST = [("lesion of cases", "xy batch"), ("classes of the batch", "xy batch"), ("classes", "x batch")]
ALL = itertools.product(CHOICES, LAYOUTS)


@pytest.mark.parametrize(
    ("name", "layout"), [*FAST, *(pytest.param(*row, marks=pytest.mark.slow) for row in ALL if row not in FAST)]
)
def test_no_layout_changes_them(name, layout):
    mesh_shape, rules, mesh_impl = LAYOUTS[layout]
    program = program_of(Task(NETWORK, **CHOICES[name]), SIZES, mesh_shape, rules, mesh_impl=mesh_impl)
    assert_equal({key: value.numpy() for key, value in program(**inputs()).items()}, whole(name)[0], 1e-9)


@pytest.mark.parametrize("name", ["lesion of the batch", "classes of cases, with background", "classes"])
def test_in_micro_batches_they_are_those_of_the_batch(name):
    task, given = Task(NETWORK, **CHOICES[name]), inputs()
    specs = task.inputs(2, SIZES, tf.float64)
    at_once = mi.Program(training_step(task, SGD(0.1)), specs, seed=3)
    in_parts = MicroBatches(task, SGD(0.1), part_inputs(specs, 2), 2, seed=3, mesh_shape="rows:2", layout="x:rows")
    for _ in range(2):
        want = at_once(**given)
        got = in_parts(parts=[{key: value[i : i + 1] for key, value in given.items()} for i in range(2)])
    assert_equal({k: v.numpy() for k, v in got.items()}, {k: v.numpy() for k, v in want.items()}, 1e-9)
    trained = ({name: v.numpy() for name, v in p.variables.items()} for p in (in_parts.program, at_once))
    assert_equal(*trained, 1e-9)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dice_over": "patch"}, "Task.dice_over = 'patch' is not known. Fix: choose one of case, batch, both."),
        ({"dice_weight": 1.2}, "Task.dice_weight = 1.2: it must be from 0, cross entropy alone, to 1."),
        ({"dice_background": True}, "Task.dice_background = True: Task.dice = 'lesion' has no such choice. Fix: T"),
        ({"dice": "adaptive", "dice_over": "case"}, "Task.dice_over = 'case': Task.dice = 'adaptive' is always that"),
    ],
)
def test_choices_that_cannot_be(arguments, text):
    with pytest.raises(mi.ConfigError) as error:
        Task(NETWORK, **arguments)
    assert text in str(error.value)


def test_the_op_refuses_what_it_does_not_know():
    with pytest.raises(
        mi.ConfigError, match=r"dice_loss: over = 'cases' is not known\. Fix: choose one of case, batch, b"
    ):
        mi.Program(
            lambda p, t: mi.ops.dice_loss(p, t, p.shape.dims[0], over="cases"), {"p": "batch:2,x:2", "t": "batch:2,x:2"}
        )


def test_gin_names():
    with gin.unlock_config():
        gin.parse_config("unet3d.Task.dice = 'classes'\nunet3d.Task.dice_over = 'batch'\nTask.dice_background = True")
    try:
        task = Task(NETWORK)
        assert (task.dice, task.dice_over, task.dice_background) == ("classes", "batch", True)
    finally:
        gin.clear_config()
