"""Deep supervision equals plain TensorFlow under every layout, and prediction does not use it."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.models.unet3d.supervision import level_weights
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.step import training_step
from tests.models import reference_unet3d
from tests.models.programs import assert_close, numbers
from tests.models.test_losses import tf_loss
from tests.models.test_unet3d import batch, build_program

SIZES = (8, 8, 4)
NETWORK = UNet3D(base_filters=2, depth=3, convs=1, norm="none", dropout_rate=0.0, deep_supervision=1)


def values(network, *layout, sizes=SIZES, **options):
    program = build_program(LiverTumorSegmentation(network, dice="classes"), sizes, *layout, **options)
    return numbers(program(**batch(sizes)))


@functools.cache
def whole(network, sizes=SIZES):
    return values(network, sizes=sizes)


def test_level_weights_equal_those_of_nnunet():
    np.testing.assert_allclose(level_weights(3), [4 / 7, 2 / 7, 1 / 7], rtol=1e-15)
    assert level_weights(1) == [1.0]


@pytest.mark.parametrize("depth", [4, 5, 6])
def test_true_selects_the_levels_of_nnunet(depth):
    """nnU-Net has logits at all resolutions but the coarsest one, of which the coarsest logits have the weight 0."""
    weights = np.array([0.5**level for level in range(depth - 1)])
    weights[-1] = 0
    network, sizes = UNet3D(base_filters=2, depth=depth, convs=1, deep_supervision=True), []

    def fn(image):
        sizes.extend(x.shape.dims[1].size for x in network(image, is_training=True))
        return image

    trace_only(fn, {"image": ("batch:1,x:64,y:64,channels:1", tf.float32)})
    np.testing.assert_allclose(level_weights(len(sizes)), weights[weights > 0] / weights.sum(), rtol=1e-15)
    assert sizes == [64 // 2**level for level in range(depth - 2)]


def tf_decoder(image, weights):
    """Returns the logits of levels 0 and 1 of `NETWORK`, in plain TensorFlow."""

    def conv(x, name):
        return tf.nn.conv3d(x, weights[f"unet3d/{name}/filter"], [1] * 5, "SAME") + weights[f"unet3d/{name}/bias"]

    x, skips = image, []
    for level in range(3):
        if level:
            skips.append(x)
            x = reference_unet3d.max_pool(x)
        x = tf.nn.leaky_relu(conv(x, f"down{level}/conv0"), 0.1)
    logits = []
    for level in (1, 0):
        skip, kernel = skips.pop(), weights[f"unet3d/grow{level}/filter"]
        x = tf.nn.conv3d_transpose(x, kernel, [*skip.shape[:4], kernel.shape[3]], [1, 2, 2, 2, 1])
        x = tf.concat([x + weights[f"unet3d/grow{level}/bias"], skip], -1)
        x = tf.nn.leaky_relu(conv(x, f"up{level}/conv0"), 0.1)
        logits.append(conv(x, f"classes{level}" if level else "classes"))
    return logits[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [SIZES, (7, 9, 6)], ids=str)
def test_values_and_gradients_equal_plain_tensorflow(sizes):
    program, given = build_program(LiverTumorSegmentation(NETWORK, dice="classes"), sizes), batch(sizes)
    weights = {name: tf.constant(v) for name, v in program.variables.items() if v.trainable}
    assert "unet3d/classes1/filter" in weights
    with tf.GradientTape() as tape:
        tape.watch(weights)
        fine, coarse = tf_decoder(tf.constant(given["image"]), weights)
        every_second = given["labels"][:, ::2, ::2, ::2]
        loss = (2 * tf_loss(fine, given["labels"], "classes") + tf_loss(coarse, every_second, "classes")) / 3
    _, liver, lesion = reference_unet3d.loss(fine, given["labels"])  # Only the finest level has measures.
    want = {"loss": loss, "liver": liver, "lesion": lesion, **tape.gradient(loss, weights)}
    assert_close(whole(NETWORK, sizes), numbers(want), 1e-9)


DEEP = UNet3D(base_filters=2, depth=4, convs=1, dropout_rate=0.5, deep_supervision=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "sizes", "layout", "mesh_impl"),
    [
        (NETWORK, SIZES, ("rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores"), "stacked"),
        (NETWORK, (7, 9, 6), ("rows:2,cols:4,cores:2", "x:rows,y:cols,batch:cores"), "stacked"),
        # Coarser levels that are gathered, labels that are gathered before and after the sampling, dropout, batch norm.
        (dataclasses.replace(DEEP, gather_below=2), (24, 8, 8), ("rows:12,cols:2", "x:rows,y:cols"), "stacked"),
        (
            dataclasses.replace(DEEP, gather_below=2, recompute=True),
            (24, 8, 8),
            ("rows:4,cols:4", "x:rows,y:cols"),
            "placement",
        ),
        (NETWORK, (8, 8, 8), ("rows:2,cols:2", "z:rows,x:cols"), "placement"),
    ],
    ids=["xy batch", "xy batch uneven", "xy gathered", "xy gathered, recomputed", "xz"],
)
def test_values_and_gradients_do_not_depend_on_the_layout(network, sizes, layout, mesh_impl):
    want = whole(dataclasses.replace(network, gather_below=0, recompute=False), sizes)
    assert_close(values(network, *layout, sizes=sizes, mesh_impl=mesh_impl), want, 1e-9)


@pytest.mark.slow
def test_micro_batches_equal_the_batch():
    task, given = LiverTumorSegmentation(NETWORK, dice="classes"), batch(SIZES)
    specs = task.inputs(2, SIZES, tf.float64)
    want = mi.Program(training_step(task, SGD(0.1)), specs, seed=3)(**given)
    step = MicroBatches(task, SGD(0.1), part_inputs(specs, 2), 2, seed=3, layout=Layout.parse("rows:2", "x:rows"))
    got = step(parts=[{key: value[i : i + 1] for key, value in given.items()} for i in range(2)])
    assert_close(numbers(got), numbers(want), 1e-9)


@pytest.mark.slow
def test_prediction_does_not_use_deep_supervision(tmp_path):
    task = LiverTumorSegmentation(NETWORK)
    program = mi.Program(training_step(task, SGD(0.1)), task.inputs(2, SIZES), seed=3)
    program(**batch(SIZES))
    Checkpoints(tmp_path, program).save()
    image = batch(SIZES)["image"][0]
    predictions = [
        predictor(
            task=LiverTumorSegmentation(dataclasses.replace(NETWORK, deep_supervision=levels)),
            sizes=SIZES,
            model_dir=tmp_path,
        )(image)
        for levels in (1, False)
    ]
    np.testing.assert_array_equal(*predictions)
    plain = mi.Program(task.predict, task.inputs(1, SIZES, labels=False))
    assert not [name for name in plain.variables if "classes1" in name]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"depth": 2, "deep_supervision": True},
            "True: with UNet3D.depth = 2, the decoder has 0 levels that are coarser than the image",
        ),
        ({"depth": 3, "deep_supervision": True}, "True: with UNet3D.depth = 3, the decoder has 1 levels"),
        ({"depth": 4, "deep_supervision": 3}, "= 3: with UNet3D.depth = 4, the decoder has 2 levels"),
    ],
)
def test_invalid_levels(arguments, text):
    with pytest.raises(mi.ConfigError) as error:
        UNet3D(**arguments)
    assert text in str(error.value)
