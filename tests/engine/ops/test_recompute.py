"""Recomputation in the backward pass saves memory and changes no values, gradients or updates."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi

LAYOUTS = {
    "whole": {},
    "stacked": {"mesh_shape": "rows:2,cols:2", "layout": "x:rows,y:cols", "mesh_impl": "stacked"},
    "placement": {"mesh_shape": "rows:2,cores:2", "layout": "x:rows,batch:cores", "mesh_impl": "placement"},
}
SHAPES = dict.fromkeys(["image", "other"], ("batch:2,x:8,y:4,z:4,channels:2", "float64"))


def call(fn, *inputs):
    return fn(*inputs)


def layer(run, x, skip, name, inner=call):
    """A layer with weights, statistics, dropout, a tensor from outside, and two results."""

    def fn(x):
        kernel = mi.mtf.get_variable(x.mesh, f"{name}/kernel", "kx:3,ky:3,kz:3,channels:2,out:2", dtype=tf.float64)
        y = mi.mtf.rename_dimension(mi.ops.conv3d(x, kernel), "out", "channels")
        y = mi.ops.batch_norm(y, True, name=f"{name}/norm") * skip
        y = inner(lambda y: mi.ops.dropout(mi.ops.leaky_relu(y, 0.1), 0.5, name=f"{name}/dropout"), y)
        return y, y * mi.mtf.random_uniform(x.mesh, x.shape, dtype=tf.float64)

    return run(fn, x)


def results(run, inner=call, **layout):
    """Returns the values, gradients and variables after one call of two layers, by name."""

    def fn(image, other):
        x, noise = layer(run, image, other, "first", inner)
        y, again = layer(run, x + noise, x, "second", inner)
        loss = mi.mtf.reduce_sum(mi.mtf.square(y) + again)
        weights = [v.outputs[0] for v in image.graph.trainable_variables]
        gradients = mi.mtf.gradients([loss], [image, other, *weights])
        return {"y": y, **{f"gradient {i}": g for i, g in enumerate(gradients)}}

    program = mi.Program(fn, SHAPES, **layout)
    rng = np.random.default_rng(0)
    values = program(**{name: rng.standard_normal((2, 8, 4, 4, 2)) for name in SHAPES})
    return {name: value.numpy() for name, value in [*values.items(), *program.variables.items()]}


@pytest.fixture(scope="module")
def kept():
    return results(call)


@pytest.mark.mostly_slow(fast=0.2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("inner", [call, mi.ops.recompute])
def test_values_gradients_and_updates_are_the_same(kept, layout, inner):
    recomputed = results(mi.ops.recompute, inner, **LAYOUTS[layout])
    assert recomputed.keys() == kept.keys()
    assert np.abs(kept["first/norm/moving_mean"]).max() > 0
    for name, value in kept.items():
        tolerance = 1e-12 * max(np.abs(value).max(), 1)
        np.testing.assert_allclose(recomputed[name], value, rtol=0, atol=tolerance, err_msg=name)


def test_invalid_functions():
    def nothing(image):
        return mi.ops.recompute(lambda x: None, image)

    with pytest.raises(mi.ShapeError, match=r"recompute: the function must return Tensors, not None \(NoneType\)"):
        mi.Program(nothing, {"image": "x:4"})

    def from_within(image):
        inner = []
        y = mi.ops.recompute(lambda x: mi.mtf.square(inner.append(mi.mtf.square(x)) or inner[0]), image)
        return y + inner[0]

    with pytest.raises(ValueError, match="unusable input"):
        mi.Program(from_within, {"image": "x:4"})


def peak(run):
    """Returns the peak number of tensors in memory for the gradient of a chain of 24 operations."""
    size = 2**20

    def chain(x):
        for _ in range(8):
            x = mi.mtf.sin(x)
        return x

    def fn(image):
        x = image
        for _ in range(3):
            x = run(chain, x)
        return mi.mtf.reduce_sum(mi.mtf.gradients([mi.mtf.reduce_sum(x)], [image])[0])

    program, image = mi.Program(fn, {"image": f"x:{size}"}), tf.zeros([size])
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    program(image=image)
    return (tf.config.experimental.get_memory_info("CPU:0")["peak"] - before) / (4 * size)


def test_it_saves_memory():
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
    except ValueError:
        pytest.skip("TensorFlow reports no memory statistics for this CPU")
    assert peak(call) >= 23
    assert peak(mi.ops.recompute) <= 3 + 8  # the kept inputs, and the recomputed tensors of one block
