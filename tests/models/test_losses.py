"""All Dice losses of a task, mixed with cross entropy.

Values and gradients equal plain TensorFlow's, under several layouts and in micro-batches.
"""

import functools

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from tests.models import reference_unet3d
from tests.models.programs import assert_close, numbers
from tests.models.test_unet3d import batch, build_program

SIZES, WEIGHTS = (8, 4, 4), (1.0, 8.0, 16.0)
CHOICES = {
    "lesion": {},
    "lesion of each case": {"dice_over": "case"},
    "lesion of the batch": {"dice_over": "batch"},
    "classes": {"dice": "classes"},
    "classes of each case, with background": {"dice": "classes", "dice_over": "case", "dice_background": True},
    "classes of the batch": {"dice": "classes", "dice_over": "batch", "dice_weight": 0.5},
    "adaptive": {"dice": "adaptive"},
    "Dice alone": {"dice": "classes", "dice_weight": 1.0, "dice_background": True},
    "cross entropy alone": {"dice_weight": 0.0},
}
NETWORK = UNet3D(base_filters=2, depth=2, norm="none", dropout_rate=0.0)


def inputs():
    inputs = batch(SIZES)
    inputs["labels"][0] = np.minimum(inputs["labels"][0], 1)  # a case without lesions
    return inputs


def tf_loss(logits, labels, dice="lesion", dice_over="both", dice_background=False, dice_weight=0.2):
    """Returns the loss in plain TensorFlow, given `[batch, x, y, z, classes]` in float64 and `[batch, x, y, z]`."""
    p, t = tf.nn.softmax(logits), tf.one_hot(labels, 3, dtype=logits.dtype)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    cross_entropy = tf.reduce_mean(cross_entropy * tf.gather(tf.constant(WEIGHTS, logits.dtype), labels))
    if dice == "adaptive":
        overlap, total = tf.reduce_sum(p * t, [0, 1, 2, 3]), tf.reduce_sum(p + t, [0, 1, 2, 3])
        each = (2 * overlap + 1e-7) / (total + 1e-7)
        return (1 - dice_weight) * cross_entropy + dice_weight * (1 - tf.reduce_mean(each * tf.exp(1 - each)))
    classes = slice(2 if dice == "lesion" else 0 if dice_background else 1, 3)
    axes = {"case": [[1, 2, 3]], "batch": [[0, 1, 2, 3]], "both": [[1, 2, 3], [0, 1, 2, 3]]}[dice_over]
    terms = [(2 * tf.reduce_sum(p * t, a) + 0.1) / (tf.reduce_sum(p, a) + tf.reduce_sum(t, a) + 0.1) for a in axes]
    dice_loss = 1 - tf.add_n([tf.reduce_mean(term[..., classes]) for term in terms]) / len(terms)
    return (1 - dice_weight) * cross_entropy + dice_weight * dice_loss


@functools.cache
def whole(name):
    """Returns the values and gradients of a task without a layout, and its weights."""
    program = build_program(LiverTumorSegmentation(NETWORK, **CHOICES[name]), SIZES)
    weights = {name: v.numpy() for name, v in program.variables.items() if v.trainable}
    return numbers(program(**inputs())), weights


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("name", CHOICES)
def test_values_and_gradients_equal_plain_tensorflow(name):
    got, weights = whole(name)
    weights, given = {name: tf.constant(value) for name, value in weights.items()}, inputs()
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = reference_unet3d.logits(tf.constant(given["image"]), weights, 2, "none", 1)
        loss = tf_loss(logits, given["labels"], **CHOICES[name])
    want = {"loss": loss, **tape.gradient(loss, weights)}
    assert_close({key: got[key] for key in want}, numbers(want), 1e-9)


LAYOUTS = {
    "xy batch": ("rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked"),
    "xyz": ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes", "stacked"),
    "x batch": ("rows:2,cores:2", "x:rows,batch:cores", "placement"),
}
FAST = [("lesion of each case", "xy batch"), ("classes", "x batch")]
# Every kind of Dice loss runs under every layout, over cases, the batch or both.
ALL = [(name, tuple(LAYOUTS)[number % 3]) for number, name in enumerate(CHOICES)]
ALL += [("adaptive", layout) for layout in LAYOUTS if ("adaptive", layout) not in ALL]


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize(
    ("name", "layout"), [*FAST, *(pytest.param(*row, marks=pytest.mark.slow) for row in ALL if row not in FAST)]
)
def test_values_and_gradients_do_not_depend_on_the_layout(name, layout):
    mesh_shape, rules, mesh_impl = LAYOUTS[layout]
    program = build_program(
        LiverTumorSegmentation(NETWORK, **CHOICES[name]), SIZES, mesh_shape, rules, mesh_impl=mesh_impl
    )
    assert_close(numbers(program(**inputs())), whole(name)[0], 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lesion of the batch", "classes of each case, with background", "classes"])
def test_micro_batches_equal_the_batch(name):
    task, given = LiverTumorSegmentation(NETWORK, **CHOICES[name]), inputs()
    specs = task.inputs(2, SIZES, tf.float64)
    whole_batch = mi.Program(training_step(task, SGD(0.1)), specs, seed=3)
    micro_batches = MicroBatches(
        task, SGD(0.1), part_inputs(specs, 2), 2, seed=3, layout=Layout.parse("rows:2", "x:rows")
    )
    for _ in range(2):
        want = whole_batch(**given)
        got = micro_batches(parts=[{key: value[i : i + 1] for key, value in given.items()} for i in range(2)])
    assert_close(numbers(got), numbers(want), 1e-9)
    trained = ({name: v.numpy() for name, v in p.variables.items()} for p in (micro_batches.program, whole_batch))
    assert_close(*trained, 1e-9)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"dice_background": True}, "dice_background"), ({"dice": "adaptive", "dice_over": "case"}, "dice_over")],
)
def test_choices_without_effect(arguments, name):
    task, dice = "LiverTumorSegmentation", arguments.get("dice", "lesion")
    text = f"{task}.{name} = {arguments[name]!r} has no effect with {task}.dice = {dice!r}"
    with pytest.raises(mi.ConfigError, match=text):
        LiverTumorSegmentation(NETWORK, **arguments)


def test_the_operation_refuses_an_unknown_choice():
    with pytest.raises(
        mi.ConfigError, match=r"dice_loss: over = 'cases' is not known\. Fix: choose one of case, batch, b"
    ):
        mi.Program(
            lambda p, t: mi.ops.dice_loss(p, t, p.shape.dims[0], over="cases"), {"p": "batch:2,x:2", "t": "batch:2,x:2"}
        )


def test_gin_names():
    gin.parse_config(
        """
        unet3d.LiverTumorSegmentation.dice = 'classes'
        unet3d.LiverTumorSegmentation.dice_over = 'batch'
        LiverTumorSegmentation.dice_background = True
        """
    )
    task = LiverTumorSegmentation(NETWORK)
    assert (task.dice, task.dice_over, task.dice_background) == ("classes", "batch", True)
