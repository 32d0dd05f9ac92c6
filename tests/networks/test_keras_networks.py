"""Networks of Keras equal their conversions under every layout: outputs, gradients, updates and exported weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.networks import comparing
from tests.networks.small_networks import NETWORKS

# TensorFlow's 3D pools compute only in float32.
ONLY_FLOAT32 = {"unet"}


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    comparing.use_dtype("float32")


def built(name, dtype="float32"):
    comparing.use_dtype(dtype)
    build, sizes = NETWORKS[name]
    model = build()
    comparing.randomize(model.variables)
    return model, sizes


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_float64(name, layout, training):
    model, sizes = built(name, "float32" if name in ONLY_FLOAT32 else "float64")
    tolerance = 1e-4 if name in ONLY_FLOAT32 else 1e-9
    program = comparing.check_model(model, layout, training, tolerance, batch=2, **sizes)
    if training:
        for variable in model.non_trainable_variables:
            if "moving" in variable.path:
                np.testing.assert_allclose(program.variables[variable.path], variable.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("layout", ["whole", "split", "in turns"])
def test_training_and_export(layout):
    """Three steps change the weights as in Keras, and the exported model computes what the program computes."""
    model, sizes = built("residual", "float64")
    ours = keras.models.clone_model(model)
    ours.set_weights(model.get_weights())
    network = mi.networks.load(ours)
    specs = network.inputs(batch=3, **sizes)
    images = [comparing.arrays(specs, seed)["image"] for seed in range(3)]
    labels = [tf.one_hot([0, 2, seed], 5, dtype=tf.float64).numpy() for seed in range(3)]

    def step(image, label):
        y = network(training=True, image=image)
        loss = mi.mtf.reduce_mean(mi.mtf.square(y - mi.mtf.reshape(label, y.shape)))
        variables = [v.outputs[0] for v in loss.mesh.graph.trainable_variables]
        for variable, gradient in zip(variables, mi.mtf.gradients([loss], variables), strict=True):
            mi.mtf.assign(variable, variable - 0.1 * gradient)
        return loss

    options = comparing.layout_of(layout, specs)
    program = mi.Program(step, specs | {"label": ("batch:3,channels:5", "float64")}, **options)
    losses = [program(image=x, label=y).numpy() for x, y in zip(images, labels, strict=True)]
    optimizer, wanted = keras.optimizers.SGD(0.1), []
    for x, y in zip(images, labels, strict=True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        wanted.append(loss.numpy())
    np.testing.assert_allclose(losses, wanted, 1e-9)
    assert network.export(program) is ours
    for mine, theirs in zip(ours.variables, model.variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), 1e-7, 1e-9)
    np.testing.assert_allclose(ours.predict(images[0], verbose=0), model.predict(images[0], verbose=0), 1e-9)
