"""Networks in terms of `mi.layers`: values, gradients and a step of training equal those on the whole tensors."""

import functools

import numpy as np
import pytest

import mtf_imaging as mi
from tests.engine.eager import EagerProgram
from tests.engine.harness import difference
from tests.engine.layers import networks

mtf = mi.mtf

SMALL_UNET = functools.partial(networks.attention_unet, depth=1)
CASES = [
    (SMALL_UNET, "batch:2,x:7,y:6,channels:2", "rows:2,cols:2", "x:rows,y:cols"),
    (SMALL_UNET, "batch:1,x:3,y:4,z:3,channels:2", "rows:3,model:2", "x:rows,channels:model"),
    (networks.edsr, "batch:2,x:5,y:6,channels:3", "rows:2,cols:2", "x:rows,y:cols"),
    (networks.edsr, "batch:1,x:3,y:2,z:5,channels:1", "planes:3,model:2", "z:planes,channels:model"),
]


def _values(shape):
    return np.random.default_rng(0).standard_normal([int(part.split(":")[1]) for part in shape.split(",")])


def _loss_and_gradients(network, image):
    """Returns the loss, and {name: gradient} of all weights."""
    loss = mtf.reduce_mean(mtf.square(network(image)))
    variables = loss.graph.trainable_variables
    gradients = mtf.gradients([loss], [v.outputs[0] for v in variables])
    return loss, {v.name: gradient for v, gradient in zip(variables, gradients, strict=True)}


@pytest.mark.parametrize(("network", "shape", "mesh_shape", "layout"), CASES)
def test_values_and_gradients_equal_the_whole(network, shape, mesh_shape, layout):
    def fn(image):
        loss, gradients = _loss_and_gradients(network, image)
        return {"loss": loss, **gradients}

    inputs, values = {"image": (shape, "float64")}, _values(shape)
    expected = EagerProgram(fn, inputs)(image=values)
    results = EagerProgram(fn, inputs, mesh_shape, layout)(image=values)
    assert results.keys() == expected.keys()
    assert len(expected) > 10
    for name, wanted in expected.items():
        assert difference(results[name], np.asarray(wanted)) < 1e-9, name


@pytest.mark.parametrize(
    ("network", "shape", "layout"),
    [
        (networks.edsr, "batch:1,x:5,y:2,channels:2", "x:rows"),
        pytest.param(networks.attention_unet, CASES[0][1], "x:rows", marks=pytest.mark.slow),
    ],
)
def test_a_step_of_training_equals_the_whole(network, shape, layout):
    def step(image):
        loss, gradients = _loss_and_gradients(network, image)
        for variable in loss.graph.trainable_variables:
            mtf.assign_sub(variable.outputs[0], gradients[variable.name] * 1e-3)
        return loss

    inputs, values = {"image": (shape, "float64")}, _values(shape)
    whole, split = mi.Program(step, inputs), mi.Program(step, inputs, mesh_shape="rows:2", layout=layout)
    losses = [[float(program(image=values)) for _ in range(2)] for program in (whole, split)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)
    assert losses[0][1] < losses[0][0]
    assert split.variables.keys() == whole.variables.keys()
    for name, variable in whole.variables.items():
        np.testing.assert_allclose(split.variables[name], variable, rtol=0, atol=1e-9, err_msg=name)
