"""Programs that compute the features and all gradients of a backbone, and comparisons between them."""

import functools
import zlib

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.program.tracing import trace_only
from tests.models.reference_backbones import Layers

CHANNELS = 3


def trace(network, size=(65, 65), batch_size=1):
    """Returns the graph of `network(image)`, without memory for its weights."""
    shape = f"batch:{batch_size},height:{size[0]},width:{size[1]},channels:{CHANNELS}"
    return trace_only(network, {"image": shape})


def count_weights(network):
    """Returns the number of trained weights of `network(image)`."""
    return sum(variable.shape.size for variable in trace(network).graph.trainable_variables)


@functools.cache
def feature_shapes(backbone, size, batch_size=1):
    """Returns the shape of each feature as a list, without computing it."""
    outputs = trace(functools.partial(backbone.features, is_training=False), size, batch_size).outputs
    return [feature.shape.to_integer_list for feature in outputs]


def make_inputs(backbone, size):
    """Returns an image, and a factor for each value of the features in the sum that is differentiated."""
    rng = np.random.default_rng(0)
    values = {"image": rng.standard_normal((2, *size, CHANNELS))}
    shapes = feature_shapes(backbone, size, 2)
    return {**values, **{f"factor{i}": rng.standard_normal(int(np.prod(shape))) for i, shape in enumerate(shapes)}}


def build_program(backbone, size, is_training, mesh_shape="", layout="", mesh_impl="auto"):
    """Returns a program in float64 whose variables have reproducible random values.

    Its results are the features by number, and the gradients of the sum of all features times their factors with
    respect to the image and all weights, by name.
    """

    def fn(image, **factors):
        features = backbone.features(image, is_training)
        total = sum(mi.mtf.reduce_sum(y * mi.mtf.reshape(f, y.shape)) for y, f in zip(features, factors.values()))
        variables = image.graph.trainable_variables
        gradients = mi.mtf.gradients([total], [image, *(v.outputs[0] for v in variables)])
        return {
            **{f"feature{i}": y for i, y in enumerate(features)},
            **dict(zip(["image", *(v.name for v in variables)], gradients, strict=True)),
        }

    shapes = {"image": f"batch:2,height:{size[0]},width:{size[1]},channels:{CHANNELS}"}
    for name, value in make_inputs(backbone, size).items():
        shapes.setdefault(name, f"{name}:{value.size}")
    specs = {name: (shape, tf.float64) for name, shape in shapes.items()}
    program = mi.Program(fn, specs, mesh_shape, layout, mesh_impl)
    for name, variable in program.variables.items():
        if not name.endswith("filter"):
            variable.assign(0.5 + np.random.default_rng(zlib.crc32(name.encode())).random(variable.shape))
    return program


def run(program, inputs):
    """Returns the results of a program, and its moving statistics afterwards."""
    results = {name: value.numpy() for name, value in program(**inputs).items()}
    return {**results, **{name: v.numpy() for name, v in program.variables.items() if not v.trainable}}


@functools.cache
def whole(backbone, size, is_training):
    """Returns the results on one processor."""
    return run(build_program(backbone, size, is_training), make_inputs(backbone, size))


def check_layout(backbone, size, is_training, *mesh):
    """Asserts that features, gradients and moving statistics under a layout are those on one processor.

    Returns:
      The program.
    """
    program = build_program(backbone, size, is_training, *mesh)
    assert_equal(run(program, make_inputs(backbone, size)), whole(backbone, size, is_training))
    return program


def check_reference(backbone, size, is_training, reference):
    """Asserts that features and gradients are those of `reference(image, layers)` in plain TensorFlow."""
    program, inputs = build_program(backbone, size, is_training), make_inputs(backbone, size)
    weights = {name: tf.constant(value) for name, value in program.variables.items()}
    trained = {name: weights[name] for name, value in program.variables.items() if value.trainable}

    @tf.function(autograph=False)
    def compute(image, factors):
        with tf.GradientTape() as tape:
            tape.watch([image, trained])
            features = reference(image, Layers(weights, is_training, backbone.norm_epsilon, backbone.padding))
            total = sum(tf.reduce_sum(y * tf.reshape(f, y.shape)) for y, f in zip(features, factors, strict=True))
        return features, *tape.gradient(total, [image, trained])

    image, *factors = map(tf.constant, inputs.values())
    features, image_gradient, gradients = compute(image, factors)
    want = {f"feature{i}": y for i, y in enumerate(features)} | {"image": image_gradient} | gradients
    got = program(**inputs)
    assert_equal({name: value.numpy() for name, value in got.items()}, {k: v.numpy() for k, v in want.items()})


def assert_equal(got, want):
    """Asserts equality to 1e-9 of the largest value of each array."""
    assert got.keys() == want.keys()
    for name in want:
        atol = 1e-9 * max(np.abs(want[name]).max(), 1e-3)
        np.testing.assert_allclose(got[name], want[name], rtol=0, atol=atol, err_msg=name)
