"""The functions of `mtf.layers` under layouts, after several producers: values, gradients and second derivatives."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.harness import difference
from tests.engine.upstream.layers import LAYERS

mtf = mi.mtf
Dim = mtf.Dimension
SHAPE = "batch:2,x:8,y:4,channels:4"
# x:8 and y:4 over 3 are slices of 3, 3, 2 and of 2, 2, 0; channels:4 over 3 of 2, 2, 0.
SETUPS = {
    "2x2": ("rows:2,cols:2", "x:rows,y:cols", "stacked"),
    "uneven": ("rows:3,cols:3", "x:rows,y:cols", "placement"),
    "batch": ("cores:2,model:3", "batch:cores,channels:model", "stacked"),
}


def _conv(x):
    kernel = tf.constant(np.sin(np.arange(144.0) + 1).reshape(3, 3, 4, 4))
    names = ("fx", "fy", "channels", "out")
    kernel = mtf.import_tf_tensor(x.mesh, kernel, mtf.Shape([Dim(*dim) for dim in zip(names, kernel.shape)]))
    return mtf.rename_dimension(mi.ops.conv2d(x, kernel), "out", "channels")


PRODUCERS = {
    "an input": lambda x: x,
    "conv2d": _conv,
    "instance_norm": lambda x: mi.ops.instance_norm(x, 0.1, "norm_before"),
    "reshape": lambda x: mtf.reshape(mtf.reshape(x, mtf.Shape([Dim("x", 8), Dim("y", 32)])), x.shape),
}
_whole = {}


def _weights(sizes):
    return np.cos(np.arange(int(np.prod(sizes)))).reshape(sizes)


def _run(layer, producer, setup):
    """Returns the value, the gradients and the second derivative; and the values of the variables."""

    def fn(x):
        t = PRODUCERS[producer](x)
        y = layer.fn(t)
        sizes = [dim.size for dim in y.shape.dims]
        loss = mtf.reduce_sum(y * mtf.import_tf_tensor(y.mesh, tf.constant(_weights(sizes)), y.shape))
        first = mtf.gradients([loss], [t, x, *(v.outputs[0] for v in y.graph.trainable_variables)])
        second = [None]
        if layer.twice and first[0] is not None:
            second = mtf.gradients([mtf.reduce_sum(first[0] * first[0] * first[0])], [t])
        return [mtf.zeros_like(x) if result is None else result for result in (y, *second, *first)], t

    program = mi.Program(fn, {"x": (SHAPE, "float64")}, *SETUPS.get(setup, ()), devices=["CPU:0", "CPU:1"])
    results, t = program(x=np.random.default_rng(0).standard_normal((2, 8, 4, 4)))
    return [value.numpy() for value in results], t, {name: v.numpy() for name, v in program.variables.items()}


@tf.function(autograph=False)  # some operations have no gradient in eager mode
def _reference(layer, t, variables):
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = layer.reference(t, variables)
        total = tf.reduce_sum(y * _weights(y.shape))
    return y, tape.gradient(total, t, unconnected_gradients="zero")


def _expected(layer, producer):
    if (layer, producer) not in _whole:
        results, t, variables = _run(layer, producer, None)
        if layer.reference:
            variables = {name: value for name, value in variables.items() if not name.startswith("norm_before")}
            y, dt = _reference(layer, t, variables)
            assert difference(results[0], y.numpy()) < 1e-9
            assert difference(results[2], dt.numpy()) < 1e-9
        _whole[layer, producer] = results
    return _whole[layer, producer]


def _table():
    """Yields every layer after every producer, under a rotating setup, and under every setup after an input."""
    for number, layer in enumerate(LAYERS):
        for place, producer in enumerate(PRODUCERS):
            setups = [setup for setup in SETUPS if setup not in layer.refused] or [None]
            for setup in setups if place == 0 else [setups[(number + place) % len(setups)]]:
                yield pytest.param(layer, producer, setup, id=f"{layer}-{producer}-{setup}")


@pytest.mark.mostly_slow(fast=0.02)
@pytest.mark.parametrize(("layer", "producer", "setup"), list(_table()))
def test_a_layer_equals_the_whole(layer, producer, setup):
    expected = _expected(layer, producer)
    if setup is not None:
        values, _, _ = _run(layer, producer, setup)
        worst = [float(np.abs(v - e).max() / max(np.abs(e).max(), 1e-3)) for v, e in zip(values, expected, strict=True)]
        assert max(worst) < 1e-9, f"value, second derivative and gradients differ by {worst}"


@pytest.mark.parametrize(("layer", "setup"), [(layer, setup) for layer in LAYERS for setup in layer.refused], ids=str)
def test_a_refusal_names_what_to_use_instead(layer, setup):
    with pytest.raises(mi.LayoutError) as error:
        _run(layer, "an input", setup)
    assert "Fix: " in str(error.value)
    assert layer.instead in str(error.value)
