"""Segmentation of labels, of regions and with an ignore label.

Values and gradients equal losses written out in plain TensorFlow, under every layout and in micro-batches.
"""

import functools
import itertools

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from tests.models import reference_unet3d
from tests.models.programs import assert_close, numbers
from tests.models.test_deep_supervision import NETWORK as SUPERVISED
from tests.models.test_deep_supervision import tf_decoder
from tests.models.test_unet3d import build_program

SIZES, IGNORE, EPSILON = (8, 4, 4), 4, 0.1
REGIONS = {"whole": (1, 2, 3), "core": (2, 3), "enhancing": (3,)}
LABELS = {"label_1": (1,), "label_2": (2,), "label_3": (3,)}
WEIGHTS = (1.0, 4.0, 0.5, 2.0)
NETWORK = UNet3D(base_filters=2, depth=2, norm="none", dropout_rate=0.0)
CHOICES = {
    "labels": {},
    "labels, ignore": {"ignore": IGNORE, "class_weights": WEIGHTS},
    "labels of each case, ignore": {"ignore": IGNORE, "dice": "classes", "dice_over": "case", "dice_background": True},
    "one mask, ignore": {"ignore": IGNORE, "dice": "label_2", "dice_over": "batch"},
    "adaptive, ignore": {"ignore": IGNORE, "dice": "adaptive"},
    "regions": {"regions": REGIONS, "class_weights": WEIGHTS[:3]},
    "regions, ignore": {"regions": REGIONS, "ignore": IGNORE, "dice_weight": 0.3},
    "one region of each case, ignore": {"regions": REGIONS, "ignore": IGNORE, "dice": "core", "dice_over": "case"},
}


def create_task(name, network=NETWORK):
    return Segmentation(network, channels=2, labels=3, **CHOICES[name])


def inputs(name, sizes=SIZES):
    """Returns a batch in which one case lacks label 3, and has other numbers of ignored voxels than the other."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5 if "ignore" in name else 4, (2, *sizes)).astype(np.int32)
    labels[0][labels[0] == 3] = 0
    return {"image": rng.random((2, *sizes, 2)), "labels": labels}


def tf_dice(p, t, axes):
    return (2 * tf.reduce_sum(p * t, axes) + EPSILON) / (tf.reduce_sum(p, axes) + tf.reduce_sum(t, axes) + EPSILON)


def tf_dice_loss(p, t, over):
    """Returns the mean Dice loss of structures, given `[batch, spatial..., structures]` with zeros where ignored."""
    spatial = list(range(1, len(p.shape) - 1))
    axes = {"case": [spatial], "batch": [[0, *spatial]], "both": [spatial, [0, *spatial]]}[over]
    return 1 - tf.add_n([tf.reduce_mean(tf_dice(p, t, each)) for each in axes]) / len(axes)


def tf_loss(logits, labels, regions=None, ignore=None, class_weights=None, dice="masks", dice_over="both", **options):
    """Returns the loss and the soft Dice of each mask in plain TensorFlow, in which ignored voxels are cut out."""
    names = list(regions or LABELS)
    counted = np.ones(labels.shape, bool) if ignore is None else labels != ignore
    inside = tf.constant(counted[..., None], logits.dtype)
    masks = tf.constant(np.stack([np.isin(labels, v) for v in (regions or LABELS).values()], -1), logits.dtype)
    weights = tf.constant(class_weights or [1.0] * logits.shape[-1], logits.dtype)
    kept = tf.boolean_mask(logits, counted)
    if regions:
        p, outputs = tf.sigmoid(logits) * inside, masks
        each = tf.nn.sigmoid_cross_entropy_with_logits(tf.boolean_mask(masks, counted), kept)
        cross_entropy = tf.reduce_mean(each * weights)
        probability = p
    else:
        p, outputs = tf.nn.softmax(logits) * inside, tf.one_hot(labels, 4, dtype=logits.dtype) * inside
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[counted], kept)
        cross_entropy = tf.reduce_mean(each * tf.gather(weights, labels[counted]))
        probability = p[..., 1:]
    if dice == "adaptive":
        axes = list(range(len(p.shape) - 1))
        overlap, total = tf.reduce_sum(p * outputs, axes), tf.reduce_sum(p + outputs, axes)
        d = (2 * overlap + 1e-7) / (total + 1e-7)
        dice_loss = 1 - tf.reduce_mean(d * tf.exp(1 - d))
    elif dice == "classes":
        first = 0 if options.get("dice_background") else 1
        dice_loss = tf_dice_loss(p[..., first:], outputs[..., first:], dice_over)
    else:
        at = slice(None) if dice == "masks" else slice(names.index(dice), names.index(dice) + 1)
        dice_loss = tf_dice_loss(probability[..., at], masks[..., at], dice_over)
    share = options.get("dice_weight", 0.5)
    measures = {}
    for index, name in enumerate(names):
        q, t = probability[..., index], masks[..., index]
        measures[name] = (2 * tf.reduce_sum(q * t) + 1e-6) / (tf.reduce_sum(q) + tf.reduce_sum(t) + 1e-6)
    return (1 - share) * cross_entropy + share * dice_loss, measures


@functools.cache
def whole(name):
    """Returns the values and gradients of a task without a layout, and its weights."""
    program = build_program(create_task(name), SIZES)
    weights = {name: v.numpy() for name, v in program.variables.items() if v.trainable}
    return numbers(program(**inputs(name))), weights


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize("name", CHOICES)
def test_values_and_gradients_equal_plain_tensorflow(name):
    got, weights = whole(name)
    weights, given = {key: tf.constant(value) for key, value in weights.items()}, inputs(name)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = reference_unet3d.logits(tf.constant(given["image"]), weights, 2, "none", 1)
        loss, measures = tf_loss(logits, given["labels"], **CHOICES[name])
    assert_close(got, numbers({"loss": loss, **measures, **tape.gradient(loss, weights)}), 1e-9)


LAYOUTS = {
    "xy batch": ("rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked"),
    "uneven": ("rows:3,planes:3", "x:rows,z:planes", "stacked"),
    "x batch": ("rows:2,cores:2", "x:rows,batch:cores", "placement"),
}
FAST = [("labels, ignore", "xy batch"), ("regions, ignore", "uneven"), ("labels of each case, ignore", "uneven")]
ALL = itertools.product(CHOICES, LAYOUTS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layout"), [*FAST, *(row for row in ALL if row not in FAST)])
def test_values_and_gradients_do_not_depend_on_the_layout(name, layout):
    mesh_shape, rules, mesh_impl = LAYOUTS[layout]
    program = build_program(create_task(name), SIZES, mesh_shape, rules, mesh_impl=mesh_impl)
    assert_close(numbers(program(**inputs(name))), whole(name)[0], 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels, ignore", "regions, ignore"])
def test_micro_batches_equal_the_batch(name):
    task, given = create_task(name), inputs(name)
    specs = task.inputs(2, SIZES, tf.float64)
    program = mi.Program(training_step(task, SGD(0.1)), specs, seed=3)
    step = MicroBatches(task, SGD(0.1), part_inputs(specs, 2), 2, seed=3, layout=Layout.parse("rows:2", "x:rows"))
    want = program(**given)
    got = step(parts=[{key: value[i : i + 1] for key, value in given.items()} for i in range(2)])
    assert_close(numbers(got), numbers(want), 1e-9)
    assert_close(*({name: v.numpy() for name, v in p.variables.items()} for p in (step.program, program)), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels, ignore", "regions, ignore"])
def test_deep_supervision_equals_plain_tensorflow(name):
    sizes = (7, 6, 5)
    program, given = build_program(create_task(name, SUPERVISED), sizes), inputs(name, sizes)
    weights = {key: tf.constant(v) for key, v in program.variables.items() if v.trainable}
    with tf.GradientTape() as tape:
        tape.watch(weights)
        fine, coarse = tf_decoder(tf.constant(given["image"]), weights)
        loss, measures = tf_loss(fine, given["labels"], **CHOICES[name])
        loss = (2 * loss + tf_loss(coarse, given["labels"][:, ::2, ::2, ::2], **CHOICES[name])[0]) / 3
    want = numbers({"loss": loss, **measures, **tape.gradient(loss, weights)})
    assert_close(numbers(program(**given)), want, 1e-9)
    split = build_program(create_task(name, SUPERVISED), sizes, "rows:2,cols:2", "x:rows,y:cols")
    assert_close(numbers(split(**given)), want, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels, ignore", "adaptive, ignore", "regions, ignore"])
def test_a_batch_without_counted_voxels_has_no_loss_and_no_gradient(name):
    given = {**inputs(name), "labels": np.full((2, *SIZES), IGNORE, np.int32)}
    values = numbers(build_program(create_task(name), SIZES, "rows:2", "x:rows")(**given))
    masks = REGIONS if "regions" in name else LABELS
    assert {key: values.pop(key) for key in masks} == dict.fromkeys(masks, 1.0)
    assert values.pop("loss") == pytest.approx(0.0, abs=1e-12)
    for key, gradient in values.items():
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient), err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels, ignore", "regions, ignore"])
def test_images_of_two_dimensions(name):
    sizes, task = (8, 6), create_task(name, UNet3D(base_filters=2, depth=3, dropout_rate=0.0, deep_supervision=1))
    given = inputs(name, sizes)
    program = build_program(task, sizes)
    assert program.variables["unet3d/down0/conv0/filter"].shape == [3, 3, 2, 2]
    split = build_program(task, sizes, "rows:2,cols:2", "x:rows,y:cols")
    assert_close(numbers(split(**given)), numbers(program(**given)), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels, ignore", "regions, ignore"])
def test_images_of_one_plane_are_computed_in_two_dimensions(name):
    flat, plane = inputs(name, (8, 6)), inputs(name, (8, 6, 1))
    task = create_task(name)
    expected = build_program(task, (8, 6))
    program = build_program(task, (8, 6, 1), "rows:3", "x:rows")
    assert {k: v.shape for k, v in program.variables.items()} == {k: v.shape for k, v in expected.variables.items()}
    assert_close(numbers(program(**plane)), numbers(expected(**flat)), 1e-9)
    predict = mi.Program(task.predict, task.inputs(2, (8, 6, 1), tf.float64, labels=False), variables=program)
    assert predict(image=plane["image"]).shape == (2, 8, 6, 1, task.description.num_outputs)


def test_the_loss_of_two_dimensions_equals_plain_tensorflow():
    """A network that passes the image on shows the loss of given logits."""
    given, sizes = np.random.default_rng(0).standard_normal((2, 8, 6, 3)), (8, 6)
    labels = inputs("regions, ignore", sizes)["labels"]
    task = Segmentation(
        lambda image, is_training: mi.mtf.rename_dimension(image, "channels", "classes"),
        channels=3,
        labels=3,
        **CHOICES["regions, ignore"],
    )
    loss, measures = mi.Program(task.loss, task.inputs(2, sizes, tf.float64))(image=given, labels=labels)
    want, expected = tf_loss(tf.constant(given), labels, **CHOICES["regions, ignore"])
    assert_close({"loss": loss, **measures}, {"loss": want, **expected}, 1e-9)


def test_bfloat16_logits_have_losses_in_float32():
    logits = tf.cast(3 * np.random.default_rng(0).standard_normal((2, *SIZES, 3)), tf.bfloat16)
    for name in ("regions", "regions, ignore"):
        task = Segmentation(
            lambda image, is_training: mi.mtf.rename_dimension(image, "channels", "classes"),
            channels=3,
            labels=3,
            **CHOICES[name],
        )
        labels = inputs(name)["labels"]
        loss, measures = mi.Program(task.loss, task.inputs(2, SIZES, tf.bfloat16))(image=logits, labels=labels)
        want, expected = tf_loss(tf.cast(logits, tf.float64), labels, **CHOICES[name])
        assert loss.dtype == tf.float32
        assert_close({"loss": loss, **measures}, {"loss": want, **expected}, 1e-6)


@pytest.mark.parametrize(("name", "outputs"), [("labels, ignore", 4), ("regions", 3)])
def test_predictions_are_probabilities_of_the_outputs(name, outputs):
    task = create_task(name)
    program = mi.Program(task.predict, task.inputs(1, SIZES, labels=False))
    probabilities = program(image=inputs(name)["image"][:1]).numpy()
    assert probabilities.shape == (1, *SIZES, outputs)
    sums = probabilities.sum(-1)
    if task.description.has_regions:
        assert np.abs(sums - 1).max() > 0.1
        assert 0 < probabilities.min() < probabilities.max() < 1
    else:
        np.testing.assert_allclose(sums, 1, rtol=1e-6)


BRAIN = mi.data.Description(("FLAIR", "T1w"), {"edema": 1, "core": 2}, {"whole": (1, 2), "core": (2,)}, (1, 2), 3)


def test_a_task_for_the_data_has_their_inputs_outputs_and_measures():
    general = Segmentation(NETWORK)
    task = general.for_data(BRAIN)
    assert task.inputs(1, SIZES)["image"][0] == "batch:1,x:8,y:4,z:4,channels:2"
    program = mi.Program(lambda **tensors: task.loss(**tensors)[1], task.inputs(1, SIZES))
    assert program.variables["unet3d/classes/filter"].shape[-1] == 2
    image = np.zeros((1, *SIZES, 2))
    assert set(program(image=image, labels=np.ones((1, *SIZES), np.int32))) == {"whole", "core"}
    assert general.inputs(1, SIZES)["image"][0].endswith("channels:1")  # the original task is unchanged


def test_a_description_as_labels():
    assert Segmentation(NETWORK, labels=BRAIN).description is BRAIN


def test_the_task_of_lits_accepts_only_the_labels_of_lits():
    task = LiverTumorSegmentation(NETWORK)
    assert task.for_data(mi.data.LITS) is task
    with pytest.raises(mi.ConfigError) as error:
        task.for_data(BRAIN)
    assert str(error.value) == (
        "LiverTumorSegmentation needs data with number of channels 1, but the data set has number of channels 2. "
        "Fix: use unet3d.Segmentation, which trains on any channels and labels."
    )


@pytest.mark.slow
@pytest.mark.parametrize("dice", ["lesion", "classes", "adaptive"])
def test_the_task_of_lits_is_a_case_of_the_general_task(dice):
    rng = np.random.default_rng(0)
    given = {"image": rng.random((2, *SIZES, 1)), "labels": rng.integers(0, 3, (2, *SIZES)).astype(np.int32)}
    options = {"class_weights": (1.0, 8.0, 16.0), "dice_weight": 0.2, "dice": dice}
    lits, general = LiverTumorSegmentation(NETWORK, dice=dice), Segmentation(NETWORK, labels=mi.data.LITS, **options)
    values = [numbers(build_program(task, SIZES)(**given)) for task in (lits, general)]
    assert values[0].keys() == values[1].keys() > {"loss", "liver", "lesion"}
    for name, value in values[0].items():
        np.testing.assert_array_equal(value, values[1][name], err_msg=name)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"labels": ("a", "a")}, "Segmentation.labels = ('a', 'a'): two names are equal. Fix: use distinct names."),
        ({"ignore": 2}, "Segmentation.ignore = 2: it is the value of the label 'label_2'. Fix: use 3, or None."),
        (
            {"regions": {"a": (1, 5)}},
            "Segmentation.regions = {'a': (1, 5)} with Segmentation.region_order = (1,): each",
        ),
        ({"regions": {"a": ()}}, "each region must have labels and a place in the order, from the labels 1 to 2. Fix"),
        (
            {"regions": {"a": 1}, "region_order": (1, 2)},
            "with Segmentation.region_order = (1, 2): each region must have",
        ),
    ],
)
def test_invalid_arguments(arguments, text):
    with pytest.raises(mi.ConfigError) as error:
        Segmentation(NETWORK, **arguments)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"class_weights": (1, 2, 3)},
            "Segmentation.class_weights = (1, 2, 3): it must have a weight for each of the 2 outputs of the network, "
            "whole, core, but it has 3.",
        ),
        (
            {"dice": "classes"},
            "Segmentation.dice = 'classes' is not known for regions. Fix: choose one of masks, or a mask: whole, core.",
        ),
    ],
)
def test_arguments_that_do_not_fit_the_data(arguments, text):
    task = Segmentation(NETWORK, **arguments)
    with pytest.raises(mi.ConfigError) as error:
        task.for_data(BRAIN)
    assert str(error.value) == text


def test_a_network_with_another_number_of_classes_is_refused():
    task = Segmentation(UNet3D(classes=3, base_filters=2, depth=2)).for_data(BRAIN)
    with pytest.raises(mi.ConfigError, match=r"the network has 3 classes, but this task needs 2\. Fix: use a netw"):
        mi.Program(task.loss, task.inputs(1, SIZES))


def test_images_of_one_dimension_are_refused():
    with pytest.raises(mi.ShapeError, match=r"must have 3 sizes, x, y, z, not 1: \(8,\)"):
        Segmentation(NETWORK).inputs(1, (8,))


def test_gin_names():
    gin.parse_config(
        """
        unet3d.Segmentation.channels = ('FLAIR', 'T1w')
        unet3d.Segmentation.labels = 3
        Segmentation.regions = {'whole': (1, 2, 3), 'core': 3}
        """
    )
    description = Segmentation(NETWORK).description
    assert (description.channels, description.num_outputs) == (("FLAIR", "T1w"), 2)
    assert dict(description.masks) == {"whole": (1, 2, 3), "core": (3,)}
    assert LiverTumorSegmentation(NETWORK).description is mi.data.LITS
