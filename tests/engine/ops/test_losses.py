"""Losses of 16-bit logits are those of TensorFlow in float64, and masks are weights whose zeros select."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
LOGITS, LABELS = "batch:2,x:7,y:5,classes:4", "batch:2,x:7,y:5"
BATCH, CLASSES = mtf.Dimension("batch", 2), mtf.Dimension("classes", 4)
WEIGHTS = (1.0, 8.0, 0.5, 2.0)
SETUPS = [("", ""), ("r:3,c:2", "x:r,batch:c")]  # x:7 over 3 are slices of 3, 3 and 1


def _values(dtype):
    """Returns inputs that the dtype represents exactly, as float64 and int32."""
    rng = np.random.default_rng(0)

    def exact(values):
        return tf.cast(tf.cast(values, dtype), tf.float64).numpy()

    logits = exact(rng.standard_normal((2, 7, 5, 4)) * 3)
    return {
        "logits": logits,
        "probabilities": exact(rng.random((2, 7, 5, 4))),
        "targets": exact(rng.random((2, 7, 5, 4))),
        "labels": rng.integers(0, 4, (2, 7, 5)).astype(np.int32),
        "mask": exact(rng.integers(0, 3, (2, 7, 5)) / 4),
    }


def _each(logits, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def _tf_dice(p, t, epsilon, axes):
    overlap, total = tf.reduce_sum(p * t, axes), tf.reduce_sum(p + t, axes)
    return (2 * overlap + epsilon) / (total + epsilon)


def _tf_adaptive(p, labels, mask):
    p, t = p * mask[..., None], tf.one_hot(labels, 4, dtype=p.dtype) * mask[..., None]
    dice = _tf_dice(p, t, 1e-7, [0, 1, 2])
    return 1 - tf.reduce_mean(dice * tf.exp(1 - dice))


def _tf_dice_loss(p, t):
    return 1 - (tf.reduce_mean(_tf_dice(p, t, 0.1, [1, 2, 3])) + _tf_dice(p, t, 0.1, [0, 1, 2, 3])) / 2


# {name: (the input that is differentiated, the loss, the same loss in TensorFlow)}
LOSSES = {
    "sparse_softmax_cross_entropy": (
        "logits",
        lambda x, labels, **_: mi.ops.sparse_softmax_cross_entropy(x, labels, CLASSES, WEIGHTS),
        lambda x, labels, **_: _each(x, labels) * tf.gather(tf.constant(WEIGHTS, x.dtype), labels),
    ),
    "weighted_cross_entropy": (
        "logits",
        lambda x, labels, **_: mi.ops.weighted_cross_entropy(x, labels, CLASSES),
        lambda x, labels, **_: tf.reduce_mean(_each(x, labels)),
    ),
    "weighted_cross_entropy with weights": (
        "logits",
        lambda x, labels, mask, **_: mi.ops.weighted_cross_entropy(x, labels, CLASSES, mask=mask),
        lambda x, labels, mask, **_: tf.reduce_sum(_each(x, labels) * mask) / tf.reduce_sum(mask),
    ),
    "sigmoid_cross_entropy": (
        "logits",
        lambda x, targets, **_: mi.ops.sigmoid_cross_entropy(x, targets),
        lambda x, targets, **_: tf.nn.sigmoid_cross_entropy_with_logits(targets, x),
    ),
    "dice_loss": (
        "probabilities",
        lambda x, targets, **_: mi.ops.dice_loss(x, targets, BATCH),
        lambda x, targets, **_: _tf_dice_loss(x, targets),
    ),
    "adaptive_dice_loss": (
        "probabilities",
        lambda x, labels, mask, **_: mi.ops.adaptive_dice_loss(x, labels, CLASSES, mask=mask),
        lambda x, labels, mask, **_: _tf_adaptive(x, labels, mask),
    ),
    "masked_mean": (
        "targets",
        lambda x, mask, **_: mi.ops.masked_mean(mtf.reduce_max(x, reduced_dim=CLASSES), mask),
        lambda x, mask, **_: tf.reduce_sum(tf.reduce_max(x, -1) * mask) / tf.reduce_sum(mask),
    ),
}


@pytest.mark.parametrize("setup", SETUPS, ids=str)
@pytest.mark.parametrize(("dtype", "digits"), [("bfloat16", 8), ("float16", 11)])
def test_losses_of_16_bits_are_computed_in_float32(dtype, digits, setup):
    check_16_bits(LOSSES, dtype, digits, setup)


def check_16_bits(losses, dtype, digits, setup):
    """Asserts that losses of 16-bit inputs are those of TensorFlow in float64, and that gradients are rounded once.

    Args:
      losses: a table like `LOSSES`.
      dtype: the dtype of the inputs.
      digits: its number of significant bits.
      setup: the mesh shape and the layout.
    """

    def fn(**inputs):
        results = {}
        for name, (key, loss, _) in losses.items():
            y = loss(inputs[key], **inputs)
            results[name] = (y, *mtf.gradients([mtf.reduce_sum(y)], [inputs[key]]))
        return results

    shapes = dict.fromkeys(["logits", "probabilities", "targets"], (LOGITS, dtype))
    values = _values(dtype)
    program = mi.Program(fn, {**shapes, "labels": (LABELS, "int32"), "mask": (LABELS, dtype)}, *setup)
    for name, (y, dx) in program(**values).items():
        key, _, reference = losses[name]
        constants = {name: tf.constant(value) for name, value in values.items()}
        with tf.GradientTape() as tape:
            tape.watch(constants[key])
            wanted = reference(constants[key], **constants)
        assert (y.dtype, dx.dtype) == (tf.float32, dtype), name
        np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=1e-6, err_msg=name)
        # The gradient is rounded once. Gradients in float16 may be smaller than its smallest number.
        gradient = tape.gradient(wanted, constants[key])
        np.testing.assert_allclose(
            tf.cast(dx, tf.float64), gradient, rtol=1.1 * 2.0**-digits, atol=1e-7 if dtype == "float16" else 1e-8
        )


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_softmax_of_16_bits_is_rounded_once(setup):
    def fn(logits):
        y = mi.ops.softmax(logits, CLASSES)
        dy = mtf.cast(mtf.range(y.mesh, CLASSES, tf.float32), y.dtype)
        return y, *mtf.gradients([mtf.reduce_sum(y * dy)], [logits])

    logits = _values("bfloat16")["logits"]
    y, dx = mi.Program(fn, {"logits": (LOGITS, "bfloat16")}, *setup)(logits=logits)
    with tf.GradientTape() as tape:
        x = tf.constant(logits)
        tape.watch(x)
        wanted = tf.nn.softmax(x)
        total = tf.reduce_sum(wanted * tf.range(4, dtype=tf.float64))
    assert (y.dtype, dx.dtype) == (tf.bfloat16, tf.bfloat16)
    np.testing.assert_allclose(tf.cast(y, tf.float64), wanted, rtol=1.1 * 2**-8)
    np.testing.assert_allclose(tf.cast(dx, tf.float64), tape.gradient(total, x), rtol=1.1 * 2**-8, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize("layout", ["", "x:m"])
@pytest.mark.parametrize(
    ("x", "mask"),
    [
        ([1, 2, 3, 4, 5], [0.125, 0.125, 0.125, 0, 0]),
        ([1, 2, 3, 4, 5], [0.5, 0, 2, 0, 0.25]),
        ([1, np.nan, 3, np.inf, -np.inf], [1, 0, 1, 0, 0]),
    ],
)
def test_the_masked_mean_is_the_weighted_mean_of_keras(x, mask, layout, dtype):
    mask = np.array(mask, bool if dtype == "bool" else np.float32)
    program = mi.Program(mi.ops.masked_mean, {"x": "x:5", "mask": ("x:5", dtype)}, "m:2", layout)
    used = mask != 0
    expected = keras.metrics.Mean()
    expected.update_state(np.array(x, np.float32)[used], sample_weight=mask[used].astype(np.float32))
    np.testing.assert_allclose(program(x=x, mask=mask), expected.result(), rtol=1e-6)


@pytest.mark.parametrize("layout", ["", "x:m"])
def test_gradients_of_a_masked_mean(layout):
    def fn(x, mask):
        return mtf.gradients([mi.ops.masked_mean(mtf.log(x), mask)], [x, mask])

    program = mi.Program(fn, {"x": ("x:4", "float64"), "mask": ("x:4", "float64")}, "m:3", layout)
    dx, dmask = program(x=[1, np.e, np.e, 2], mask=[0.1, 0.1, 0.2, 0])
    np.testing.assert_allclose(dx, [0.25, 0.25 / np.e, 0.5 / np.e, 0], rtol=1e-12)
    # d/dw of sum(w v) / sum(w) is (v - mean) / sum(w), also where w is 0.
    np.testing.assert_allclose(dmask, (np.array([0, 1, 1, np.log(2)]) - 0.75) / 0.4, rtol=1e-12)


@pytest.mark.parametrize("layout", ["", "x:m"])
def test_an_empty_mask_has_a_mean_and_gradients_of_0(layout):
    def fn(x, mask):
        y = mi.ops.masked_mean(mtf.square(x), mask)
        return y, *mtf.gradients([y], [x])

    y, dx = mi.Program(fn, {"x": "x:3", "mask": "x:3"}, "m:2", layout)(x=[1, 2, 3], mask=[0, 0, 0])
    assert (float(y), dx.numpy().tolist()) == (0, [0, 0, 0])


@pytest.mark.parametrize("layout", ["", "x:r"])
def test_numbers_outside_of_masks_and_classes_without_weight_do_not_count(layout):
    def fn(probabilities, labels, mask):
        p = mtf.gather(probabilities, 1, CLASSES)
        return (
            mi.ops.dice_loss(p, mtf.cast(mtf.equal(labels, 1), p.dtype), BATCH, mask=mask),
            mi.ops.adaptive_dice_loss(probabilities, labels, CLASSES, mask=mask),
            mi.ops.weighted_cross_entropy(mtf.log(probabilities), labels, CLASSES, (1, 0, 1, 1), mask),
        )

    values = {key: value for key, value in _values("float32").items() if key in ("probabilities", "labels", "mask")}
    shapes = {"probabilities": (LOGITS, "float64"), "labels": (LABELS, "int32"), "mask": (LABELS, "float64")}
    program = mi.Program(fn, shapes, "r:3", layout)
    expected = [float(loss) for loss in program(**values)]
    values["probabilities"][values["mask"] == 0] = np.nan
    np.testing.assert_allclose([float(loss) for loss in program(**values)], expected, rtol=1e-12)
    p, labels, mask = (values[key] for key in ("probabilities", "labels", "mask"))
    used = (mask > 0) & (labels != 1)
    p = p[used] / p[used].sum(-1, keepdims=True)
    wanted = -(np.log(np.take_along_axis(p, labels[used][:, None], -1))[:, 0] * mask[used]).sum() / mask.sum()
    np.testing.assert_allclose(expected[2], wanted, rtol=1e-9)
    values["probabilities"][values["labels"] == 1] = [1, 0, 1, 1]  # an infinite loss of a class with the weight 0
    assert np.isfinite(float(program(**values)[2]))
