"""Adafactor equals its algorithm in NumPy and mesh_tensorflow's Adafactor."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.optimizers import Adafactor, StepDecay

STEPS = 5
DECAY = StepDecay(0.05, factor=0.5, every=2)
SHAPES = {
    "number": "",
    "bias": "channels:6",
    "matrix": "rows_of:4,channels:6",
    "filter": "fx:3,fy:1,fz:2,channels:4,filters:6",
    "wide_filter": "fx:3,fy:1,fz:2,channels:6,filters:4",
}


class Reference:
    """Algorithms 4 and 5 of the paper for one variable, in float64.

    A variable with more than two dimensions is factored over the two largest. `t` is 1 in the first step.
    """

    def __init__(self, w, axes, scaled=True, decay_exponent=0.8, beta1=0.0, clipping_threshold=1.0):
        self.w, self.axes, self.scaled = w.astype(np.float64), axes, scaled
        self.decay_exponent, self.beta1, self.clipping_threshold = decay_exponent, beta1, clipping_threshold
        self.r = self.c = self.v = self.m = 0.0

    def step(self, g, t):
        b = 1 - t**-self.decay_exponent
        square = g**2 + 1e-30
        if self.axes:
            row, column = self.axes
            self.r = b * self.r + (1 - b) * square.sum(column, keepdims=True)
            self.c = b * self.c + (1 - b) * square.sum(row, keepdims=True)
            v = self.r * self.c / self.r.sum(row, keepdims=True)
        else:
            v = self.v = b * self.v + (1 - b) * square
        u = g / np.sqrt(v)
        if self.clipping_threshold is not None:
            u /= max(1.0, rms(u) / self.clipping_threshold)
        move = DECAY(t - 1) * (max(1e-3, rms(self.w)) if self.scaled else 1.0) * u
        self.m = self.beta1 * self.m + (1 - self.beta1) * move
        self.w = self.w - self.m


class Upstream:
    """mesh_tensorflow's Adafactor, with the arguments of ours. It computes and stores only float32."""

    def __init__(self, decay_exponent=0.8, **settings):
        self.decay_exponent, self.settings = decay_exponent, settings

    def apply(self, gradients, variables):
        step = mi.ops.step(variables[0].mesh, tf.float64)
        rate, decay = (mi.mtf.cwise(fn, [step]) for fn in (DECAY, lambda t: 1 - (t + 1) ** -self.decay_exponent))
        mi.mtf.optimize.AdafactorOptimizer(
            learning_rate=mi.mtf.to_float(rate), decay_rate=mi.mtf.to_float(decay), **self.settings
        ).apply_grads(gradients, variables)


def equal_in_float32(got, want, name):
    atol = 1e-7 * np.max(np.abs(want))  # for weights near zero, which are differences of larger values
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=atol, err_msg=name)


UPSTREAM_SETTINGS = [
    {},
    {"min_dim_size_to_factor": 4, "beta1": 0.5},
    {"min_dim_size_to_factor": 4, "clipping_threshold": 0.5, "decay_exponent": 0.5},
    {"factored": False, "multiply_by_parameter_scale": False, "clipping_threshold": None},
]


def rms(x):
    return np.sqrt(np.mean(x**2))


def gradients(step):
    """Returns gradients of very different scales, as in the layers of a network; some values are zero."""
    rng = np.random.default_rng(step)
    values = {}
    for scale, (name, shape) in enumerate(SHAPES.items()):
        sizes = [int(dim.split(":")[1]) for dim in shape.split(",") if dim]
        values[name] = 10.0 ** (1 - 2 * scale) * rng.standard_normal(sizes) * (rng.random(sizes) < 0.9)
    return values


def program(optimizer, dtype, mesh_shape="", layout=""):
    """Builds a program of variables whose gradients are its inputs."""

    def fn(**inputs):
        variables = []
        for name, gradient in inputs.items():
            normal = tf.compat.v1.random_normal_initializer(stddev=0.5)
            mi.mtf.get_variable(gradient.mesh, name, gradient.shape, dtype=gradient.dtype, initializer=normal)
            variables.append(gradient.graph.name_to_variable[name])
        optimizer.apply(list(inputs.values()), variables)
        return mi.ops.step(gradient.mesh)

    return mi.Program(fn, {name: (shape, dtype) for name, shape in SHAPES.items()}, mesh_shape, layout)


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cols:2", "channels:rows,filters:cols,rows_of:cols")], ids=str)
@pytest.mark.parametrize(
    ("settings", "factored"),
    [
        ({}, ()),
        ({"min_dim_size_to_factor": 5}, ()),
        ({"min_dim_size_to_factor": 4}, ("filter", "matrix", "wide_filter")),
        ({"min_dim_size_to_factor": 4, "factored": False}, ()),
        ({"min_dim_size_to_factor": 1, "beta1": 0.7, "clipping_threshold": 0.5}, ("filter", "matrix", "wide_filter")),
        ({"clipping_threshold": None, "multiply_by_parameter_scale": False, "decay_exponent": 0.5}, ()),
    ],
    ids=str,
)
def test_a_run_equals_the_algorithm(settings, factored, layout):
    p = program(Adafactor(DECAY, **settings), "float64", *layout)
    names = {"multiply_by_parameter_scale": "scaled"}
    arguments = {names.get(k, k): v for k, v in settings.items() if k not in ("factored", "min_dim_size_to_factor")}
    axes = {"matrix": (0, 1), "filter": (3, 4), "wide_filter": (3, 4)}
    references = {
        name: Reference(p.variables[name].numpy(), name in factored and axes[name], **arguments) for name in SHAPES
    }
    for step in range(STEPS):
        given = gradients(step)
        p(**given)
        for name, reference in references.items():
            reference.step(given[name], step + 1)
            # Not bit for bit: the order of sums differs, and mesh_tensorflow multiplies by a reciprocal to divide.
            np.testing.assert_allclose(p.variables[name], reference.w, rtol=1e-12, err_msg=f"{name}, step {step}")
    assert {name for name in SHAPES if f"{name}_slot_vr" in p.variables} == set(factored)


def test_second_moments_of_a_factored_filter_are_a_row_and_a_column_for_each_tap():
    p = program(Adafactor(min_dim_size_to_factor=4), "float32")
    shapes = {name.removeprefix("filter_slot_"): v.shape.as_list() for name, v in p.variables.items() if "slot" in name}
    assert shapes["vr"] == [3, 1, 2, 4]
    assert shapes["vc"] == [3, 1, 2, 6]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slots_have_the_dtype_of_the_variable_and_are_not_trained(dtype):
    p = program(Adafactor(beta1=0.5, min_dim_size_to_factor=4), dtype)
    assert {v.dtype.name for v in p.variables.values()} == {dtype}
    assert {name for name, v in p.variables.items() if v.trainable} == set(SHAPES)


def test_a_variable_whose_gradient_is_zero_stays():
    p = program(Adafactor(min_dim_size_to_factor=4), "float32")
    before = {name: p.variables[name].numpy() for name in SHAPES}
    p(**{name: 0 * value for name, value in gradients(0).items()})
    for name in SHAPES:
        np.testing.assert_array_equal(p.variables[name], before[name])


def test_weights_that_are_zero_move_by_the_least_scale():
    p = program(Adafactor(0.5, epsilon2=1e-2), "float64")
    for name in SHAPES:
        p.variables[name].assign(np.zeros(p.variables[name].shape))
    given = {name: np.where(value < 0, -1.0, 1.0) for name, value in gradients(0).items()}
    p(**given)
    for name in SHAPES:  # g / sqrt(g^2) is the sign of g
        np.testing.assert_allclose(p.variables[name], -0.5 * 1e-2 * given[name], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("settings", UPSTREAM_SETTINGS, ids=str)
def test_a_run_equals_mesh_tensorflows(settings):
    ours, upstream = program(Adafactor(DECAY, **settings), "float32"), program(Upstream(**settings), "float32")
    assert sorted(ours.variables) == sorted(upstream.variables)
    for step in range(STEPS):
        ours(**gradients(step))
        upstream(**gradients(step))
    for name, variable in upstream.variables.items():
        equal_in_float32(ours.variables[name], variable, name)


@pytest.mark.slow
@pytest.mark.parametrize("settings", UPSTREAM_SETTINGS, ids=str)
def test_the_graph_is_no_larger_than_mesh_tensorflows(settings):
    assert (
        program(Adafactor(DECAY, **settings), "float32").num_nodes <= program(Upstream(**settings), "float32").num_nodes
    )


def test_a_checkpoint_of_mesh_tensorflows_slots_is_resumed(tmp_path):
    """The slots have the names of mesh_tensorflow's optimizer."""
    settings = {"min_dim_size_to_factor": 4, "beta1": 0.5}
    ours, upstream = program(Adafactor(DECAY, **settings), "float32"), program(Upstream(**settings), "float32")
    for step in range(2):
        upstream(**gradients(step))
    Checkpoints(tmp_path, upstream).save()
    assert Checkpoints(tmp_path, ours).restore() == 2
    for step in range(2, STEPS):
        ours(**gradients(step))
        upstream(**gradients(step))
    for name, variable in upstream.variables.items():
        equal_in_float32(ours.variables[name], variable, name)
