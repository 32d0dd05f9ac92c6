"""Comparisons of backbones with their references: features, all gradients and moving statistics."""

import functools
import zlib

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.tracing import trace_only
from tests.models import reference_backbones

CHANNELS = 3
LAYOUTS = {
    "whole": ("", "", "stacked"),
    "2x2": ("rows:2,cols:2", "height:rows,width:cols", "stacked"),
    "4x2": ("rows:4,cols:2", "height:rows,width:cols", "stacked"),
    "3x1": ("rows:3,cols:1", "height:rows,width:cols", "stacked"),
    "2x2 placement": ("rows:2,cols:2", "height:rows,width:cols", "placement"),
    "3x1 placement": ("rows:3,cols:1", "height:rows,width:cols", "placement"),
}


def trace(network, size=(65, 65), batch_size=1):
    """Returns the graph of `network(image)`, without memory for its weights."""
    shape = f"batch:{batch_size},height:{size[0]},width:{size[1]},channels:{CHANNELS}"
    return trace_only(network, {"image": shape})


def trace_features(backbone, size=(65, 65), batch_size=1):
    """Returns the graph of the features of a backbone."""
    return trace(functools.partial(backbone.features, is_training=True), size, batch_size)


def count_weights(network):
    """Returns the number of trained weights of `network(image)`."""
    return sum(variable.shape.size for variable in trace(network).graph.trainable_variables)


def make_inputs(backbone, size):
    """Returns an image, and a factor for each value of the features in the sum that is differentiated."""
    rng = np.random.default_rng(0)
    values = {"image": rng.standard_normal((2, *size, CHANNELS))}
    for i, feature in enumerate(trace_features(backbone, size, 2).outputs):
        values[f"factor{i}"] = rng.standard_normal(feature.shape.size)
    return values


def initial_value(name, shape):
    """Returns the value of a variable, which depends only on its name and shape."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith("filter"):
        return rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))
    return 0.5 + rng.random(shape)


def build_program(backbone, size, is_training, mesh_shape="", layout="", mesh_impl="stacked"):
    """Returns a program in float64.

    Its results are the features by number, and the gradients of the sum of all features times their factors with
    respect to the image and all weights, by name.
    """

    def fn(image, **factors):
        features = backbone.features(image, is_training)
        total = sum(mi.mtf.reduce_sum(y * mi.mtf.reshape(f, y.shape)) for y, f in zip(features, factors.values()))
        variables = image.graph.trainable_variables
        gradients = mi.mtf.gradients([total], [image, *(v.outputs[0] for v in variables)])
        names = ["image", *(variable.name for variable in variables)]
        return {f"feature{i}": y for i, y in enumerate(features)} | dict(zip(names, gradients, strict=True))

    shapes = {name: f"{name}:{value.size}" for name, value in make_inputs(backbone, size).items()}
    shapes["image"] = f"batch:2,height:{size[0]},width:{size[1]},channels:{CHANNELS}"
    program = mi.Program(
        fn, {name: (shape, tf.float64) for name, shape in shapes.items()}, mesh_shape, layout, mesh_impl
    )
    for name, variable in program.variables.items():
        variable.assign(initial_value(name, variable.shape))
    return program


@functools.cache
def reference(backbone, size, is_training, network):
    """Returns the results of `network(image, layers)` in plain TensorFlow, as `check` compares them."""
    variables = trace_features(backbone).graph.all_variables
    values = {v.name: tf.constant(initial_value(v.name, v.shape.to_integer_list)) for v in variables}
    weights = {v.name: values[v.name] for v in variables if v.trainable}
    image, *factors = map(tf.constant, make_inputs(backbone, size).values())

    @tf.function(autograph=False)
    def compute():
        layers = reference_backbones.Layers(
            values, is_training, backbone.norm_momentum, backbone.norm_epsilon, backbone.padding
        )
        with tf.GradientTape() as tape:
            tape.watch([image, weights])
            features = network(image, layers)
            total = sum(tf.reduce_sum(y * tf.reshape(f, y.shape)) for y, f in zip(features, factors, strict=True))
        image_gradient, gradients = tape.gradient(total, [image, weights])
        results = {f"feature{i}": y for i, y in enumerate(features)}
        return results | {"image": image_gradient} | gradients | layers.moving_statistics

    return {name: value.numpy() for name, value in compute().items()}


def check(backbone, size, is_training, network, layout):
    """Asserts that features, gradients and moving statistics under a layout are those of plain TensorFlow.

    Args:
      backbone: a `Backbone`.
      size: height and width of the image.
      is_training: whether norms use the statistics of the batch.
      network: the reference, a function of an image and `reference_backbones.Layers`.
      layout: a key of `LAYOUTS`.

    Returns:
      The program.
    """
    program = build_program(backbone, size, is_training, *LAYOUTS[layout])
    got = {name: value.numpy() for name, value in program(**make_inputs(backbone, size)).items()}
    got |= {name: variable.numpy() for name, variable in program.variables.items() if not variable.trainable}
    want = reference(backbone, size, is_training, network)
    assert got.keys() == want.keys()
    for name in want:
        atol = 1e-9 * max(np.abs(want[name]).max(), 1e-3)
        np.testing.assert_allclose(got[name], want[name], rtol=0, atol=atol, err_msg=name)
    return program
