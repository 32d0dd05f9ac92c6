"""Networks in terms of `mi.layers`: a step of training under a layout equals the step on the whole tensors."""

import numpy as np
import pytest

import mtf_imaging as mi
from tests.layers import networks

mtf = mi.mtf

CASES = [
    (networks.attention_unet, "batch:2,x:7,y:6,channels:2", "rows:2,cols:2", "x:rows,y:cols"),
    (networks.attention_unet, "batch:2,x:7,y:6,channels:2", "rows:3,model:2", "x:rows,channels:model"),
    (networks.edsr, "batch:2,x:5,y:6,channels:3", "rows:2,cols:2", "x:rows,y:cols"),
    (networks.edsr, "batch:1,x:3,y:2,z:5,channels:1", "planes:3,model:2", "z:planes,channels:model"),
]


def _step(network):
    """Returns a function that computes the loss and the gradients, and makes a step of gradient descent."""

    def fn(image):
        loss = mtf.reduce_mean(mtf.square(network(image)))
        variables = loss.graph.trainable_variables
        gradients = mtf.gradients([loss], [v.outputs[0] for v in variables])
        for variable, gradient in zip(variables, gradients, strict=True):
            mtf.assign_sub(variable.outputs[0], gradient * 0.1)
        return loss, *gradients

    return fn


@pytest.mark.parametrize(("network", "shape", "mesh_shape", "layout"), CASES)
def test_a_step_of_training_equals_the_whole(network, shape, mesh_shape, layout):
    values = np.random.default_rng(0).standard_normal([int(part.split(":")[1]) for part in shape.split(",")])
    inputs = {"image": (shape, "float64")}
    whole = mi.Program(_step(network), inputs)
    split = mi.Program(_step(network), inputs, mesh_shape=mesh_shape, layout=layout)
    expected = whole(image=values)
    assert len(expected) > 10
    for value, wanted in zip(split(image=values), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-9 * max(np.abs(wanted).max(), 1e-3))
    assert split.variables.keys() == whole.variables.keys()
    for name, variable in whole.variables.items():
        np.testing.assert_allclose(split.variables[name], variable, rtol=0, atol=1e-9, err_msg=name)


def test_the_output_of_edsr_is_larger_than_its_input():
    program = mi.Program(networks.edsr, {"image": "batch:1,x:5,y:6,channels:3"}, mesh_shape="rows:2", layout="x:rows")
    assert np.shape(program(image=np.zeros([1, 5, 6, 3]))) == (1, 10, 12, 3)
