"""The residual network equals one in plain TensorFlow, is ResNet-18 by default, and does not depend on the layout."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet import Classification, GeneratedImages, ResNet
from tests.models.programs import assert_close, train_program

SMALL = {"classes": 4, "blocks": (1, 1), "base_filters": 2}
SIZES = (16, 24)


def build_program(network, sizes=SIZES, batch_size=2, mesh_shape="", layout="", **kwargs):
    """Returns a program that computes the loss, the accuracy and the gradients of all weights, in float64."""
    return train_program(Classification(network), sizes, mesh_shape, layout, batch_size, **kwargs)


def batch(sizes=SIZES, batch_size=2):
    images = next(GeneratedImages().batches(None, batch_size=batch_size, sizes=sizes, seed=0, start_step=0))
    return {"image": tf.cast(images["image"], tf.float64), "labels": images["labels"]}


def reference(image, weights, blocks):
    """Computes the network in plain TensorFlow."""

    def conv_norm(x, name, stride):
        x = tf.nn.conv2d(x, weights[f"resnet/{name}/filter"], stride, "SAME")
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        scale, offset = weights[f"resnet/{name}_norm/scale"], weights[f"resnet/{name}_norm/offset"]
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-5)

    x = tf.nn.max_pool2d(tf.nn.relu(conv_norm(image, "stem", 2)), 3, 2, "SAME")
    for stage, number in enumerate(blocks):
        for block in range(number):
            name, stride = f"stage{stage}/block{block}", 2 if stage and not block else 1
            y = tf.nn.relu(conv_norm(x, f"{name}/conv0", stride))
            y = conv_norm(y, f"{name}/conv1", 1)
            x = tf.nn.relu(y + (x if y.shape == x.shape else conv_norm(x, f"{name}/shortcut", stride)))
    return tf.reduce_mean(x, [1, 2]) @ weights["resnet/classes/weights"] + weights["resnet/classes/bias"]


@functools.cache
def whole(sizes=SIZES):
    return {name: value.numpy() for name, value in build_program(ResNet(**SMALL), sizes)(**batch(sizes)).items()}


@pytest.mark.parametrize("sizes", [pytest.param(SIZES, marks=pytest.mark.slow), (17, 11)], ids=str)
def test_values_and_gradients_equal_plain_tensorflow(sizes):
    network = ResNet(**SMALL | {"blocks": (1, 2)})
    program, inputs = build_program(network, sizes), batch(sizes)
    weights = {name: tf.constant(v) for name, v in program.variables.items() if v.trainable}
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = reference(inputs["image"], weights, network.blocks)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(inputs["labels"], logits))
    accuracy = np.mean(np.argmax(logits, -1) == inputs["labels"])
    want = {
        "loss": loss.numpy(),
        "accuracy": accuracy,
        **{k: g.numpy() for k, g in tape.gradient(loss, weights).items()},
    }
    assert_close(program(**inputs), want)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "mesh_shape", "layout", "mesh_impl"),
    [
        (SIZES, "rows:2,cols:3,cores:2", "height:rows,width:cols,batch:cores", "stacked"),
        (SIZES, "rows:2", "height:rows", "placement"),
        ((17, 11), "rows:3,cols:2,cores:3", "height:rows,width:cols,batch:cores", "stacked"),
        ((17, 11), "rows:5", "height:rows", "placement"),  # the last stage has 3 pixels
    ],
)
def test_values_and_gradients_do_not_depend_on_the_layout(sizes, mesh_shape, layout, mesh_impl):
    program = build_program(ResNet(**SMALL), sizes, mesh_shape=mesh_shape, layout=layout, mesh_impl=mesh_impl)
    assert_close(program(**batch(sizes)), whole(sizes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gather_below", "changes"),
    [(1, []), (2, ["resnet/pool_gather"]), (3, ["resnet/stem_gather"])],
)
def test_stages_with_small_slices_are_gathered(gather_below, changes):
    # Heights of 16, 8 after the stem, 4 after its pool, and 2 in the last stage.
    program = build_program(ResNet(**SMALL, gather_below=gather_below), mesh_shape="rows:4", layout="height:rows")
    assert [change.name for change in program.changes] == changes
    assert_close(program(**batch()), whole())


@pytest.mark.slow
def test_the_default_is_resnet_18():
    program = mi.Program(Classification().predict, Classification().inputs(1, (32, 32), labels=False))
    assert sum(v.shape.num_elements() for v in program.variables.values() if v.trainable) == 11_689_512
    np.testing.assert_allclose(np.sum(program(image=np.zeros((1, 32, 32, 3)))), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Classification().inputs(1, (8, 8, 8)),
            "an image must have 2 sizes, height, width, not 3: (8, 8, 8)",
        ),
        (
            lambda: Classification(ResNet(), dims=("row", "column")).inputs(1, (8, 8, 8)),
            "an image must have 2 sizes, row, column, not 3: (8, 8, 8). Fix: use a data set of 2-D images",
        ),
        (
            lambda: Classification(ResNet(), dims=("time", "height", "width")).inputs(1, (8, 8)),
            "an image must have 3 sizes, time, height, width, not 2: (8, 8). Fix: use a data set of 3-D images",
        ),
        (
            lambda: Classification(dims=("height", "height")),
            "Classification.dims = ('height', 'height'): it must be a tuple of 1 to 3 different names, none of which "
            "is batch or channels or classes. Fix: use a tuple such as ('height', 'width').",
        ),
        (lambda: Classification(dims=("channels", "width")), "Classification.dims = ('channels', 'width')"),
        (lambda: Classification(dims=("height:2", "width")), "Classification.dims = ('height:2', 'width')"),
    ],
)
def test_invalid_settings(make, message):
    with pytest.raises(mi.MtfImagingError, match=re.escape(message)):
        make()


@pytest.mark.slow
def test_images_do_not_depend_on_the_batch_size():
    def take(count, batch_size, start_step=0, seed=3):
        batches = GeneratedImages(16, 12).batches(
            None, batch_size=batch_size, sizes=(16, 12), seed=seed, start_step=start_step
        )
        items = [next(batches) for _ in range(count)]
        return [np.concatenate([item[name] for item in items]) for name in ("image", "labels", "cases")]

    want = take(1, 12)
    assert want[0].shape == (12, 16, 12, 3)
    assert want[0].dtype == np.float32
    assert set(want[1]) == {0, 1, 2, 3}
    assert want[2][0].startswith("0-")
    for got in (take(4, 3), take(2, 6)):
        for values, expected in zip(got, want):
            np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(take(1, 4, start_step=2)[0], want[0][8:])
    assert not np.array_equal(take(1, 12, seed=4)[1], want[1])
    assert len({image.tobytes() for image in want[0]}) == 12
