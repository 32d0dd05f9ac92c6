"""Instance and group norm: trained variables, channels split within a group, bfloat16, and invalid calls."""

import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.tracing import trace_only

SIZES = (2, 4, 6, 2, 8)
SHAPE = "batch:2,x:4,y:6,z:2,channels:8"
LAYOUTS = [
    ("", ""),
    ("rows:2,cols:3", "x:rows,y:cols"),
    ("cores:2,rows:4", "batch:cores,x:rows"),
    ("model:2", "channels:model"),
    ("rows:2,model:4", "y:rows,channels:model"),
    ("model:8,cores:2", "channels:model,batch:cores"),
    ("spare:2,rows:2,model:4", "z:rows,channels:model"),
]
DEVICES = [f"/device:CPU:{number}" for number in range(4)]  # On a larger mesh, each device has several slices.


def values(dtype=np.float64):
    rng = np.random.default_rng(0)
    inputs = {"x": 2 + rng.standard_normal(SIZES), "cotangent": rng.standard_normal(SIZES)}
    learned = {"norm/scale": rng.standard_normal(8), "norm/offset": rng.standard_normal(8)}
    return {k: v.astype(dtype) for k, v in inputs.items()}, learned


def program(norm, dtype, mesh_shape, layout, mesh_impl="stacked", shape=SHAPE):
    """Returns a program that computes y and its gradients with respect to x, scale and offset."""

    def fn(x, cotangent):
        y = norm(x)
        learned = [v.outputs[0] for v in x.mesh.graph.trainable_variables]
        return y, *mi.mtf.gradients([mi.mtf.reduce_sum(y * cotangent)], [x, *learned])

    program = mi.Program(
        fn,
        {"x": (shape, dtype), "cotangent": (shape, dtype)},
        mesh_shape=mesh_shape,
        layout=layout,
        mesh_impl=mesh_impl,
        devices=DEVICES,
    )
    for name, value in values()[1].items():
        program.variables[name].assign(value)
    return program


def reference(groups, inputs, learned):
    x, scale, offset = (tf.constant(v) for v in (inputs["x"], *learned.values()))
    with tf.GradientTape() as tape:
        tape.watch([x, scale, offset])
        grouped = tf.reshape(x, [*x.shape[:-1], groups, 8 // groups])
        mean, variance = tf.nn.moments(grouped, [1, 2, 3, 5], keepdims=True)
        normal = tf.reshape((grouped - mean) / tf.sqrt(variance + 1e-6), x.shape)
        y = normal * scale + offset
        total = tf.reduce_sum(y * inputs["cotangent"])
    return y, *tape.gradient(total, [x, scale, offset])


@pytest.mark.mostly_slow(fast=0.06)
@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS)
@pytest.mark.parametrize("groups", [1, 4, 8])
def test_values_and_all_gradients_equal_the_reference(groups, mesh_shape, layout, mesh_impl):
    inputs, learned = values()
    got = program(lambda x: mi.ops.group_norm(x, groups, name="norm"), "float64", mesh_shape, layout, mesh_impl)
    for value, want in zip(got(**inputs), reference(groups, inputs, learned), strict=True):
        np.testing.assert_allclose(value, want, rtol=0, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS[:5])
def test_one_case_equals_the_reference(mesh_shape, layout, mesh_impl):
    """The slices of one case share statistics, unless a processor has no case."""
    inputs, learned = values()
    inputs = {name: value[:1] for name, value in inputs.items()}
    shape = SHAPE.replace("batch:2", "batch:1")
    got = program(lambda x: mi.ops.group_norm(x, 4, name="norm"), "float64", mesh_shape, layout, mesh_impl, shape)
    for value, want in zip(got(**inputs), reference(4, inputs, learned), strict=True):
        np.testing.assert_allclose(value, want, rtol=0, atol=1e-12 * np.abs(want).max())


def test_instance_norm_is_group_norm_with_one_channel_per_group():
    inputs, learned = values()
    got = program(lambda x: mi.ops.instance_norm(x, name="norm"), "float64", *LAYOUTS[1])(**inputs)
    for value, want in zip(got, reference(8, inputs, learned), strict=True):
        np.testing.assert_allclose(value, want, rtol=0, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize(("mesh_shape", "layout"), [LAYOUTS[0], LAYOUTS[1], LAYOUTS[4]])
def test_statistics_of_bfloat16_are_not_rounded(mesh_shape, layout):
    inputs, learned = values()
    inputs["x"] += 14
    inputs = {k: tf.cast(v, tf.bfloat16) for k, v in inputs.items()}
    norm = program(lambda x: mi.ops.group_norm(x, 4, name="norm"), "bfloat16", mesh_shape, layout)
    assert {v.dtype for v in norm.variables.values()} == {tf.float32}
    y, _, dscale, doffset = norm(**inputs)
    want, _, want_dscale, want_doffset = reference(4, {k: tf.cast(v, tf.float64) for k, v in inputs.items()}, learned)
    # y has the precision of bfloat16, although x itself has steps of 1/16.
    np.testing.assert_allclose(tf.cast(y, tf.float64), want, rtol=1.01 * 2**-8, atol=1e-5)
    assert dscale.dtype == doffset.dtype == tf.float32
    np.testing.assert_allclose(dscale, want_dscale, rtol=0, atol=1e-4 * np.abs(want_dscale).max())
    np.testing.assert_allclose(doffset, want_doffset, rtol=0, atol=1e-4 * np.abs(want_doffset).max())


def test_cases_do_not_affect_each_other():
    norm = program(lambda x: mi.ops.group_norm(x, 2, name="norm"), "float64", "cores:2", "batch:cores")
    assert sorted(norm.variables) == ["norm/offset", "norm/scale"]
    inputs, _ = values()
    before = norm(**inputs)[0][0]
    inputs["x"][1] *= 100
    np.testing.assert_array_equal(norm(**inputs)[0][0], before)


@pytest.mark.parametrize(
    ("norm", "message"),
    [
        (lambda x: mi.ops.group_norm(x, 3, name="n"), r"'n': groups must be an int .* 'channels' \(size 8\), not 3"),
        (lambda x: mi.ops.group_norm(x, 0), "group_norm 'group_norm': groups must be an int that divides"),
        (lambda x: mi.ops.group_norm(x, "4"), "not '4'"),
        (lambda x: mi.ops.instance_norm(mi.mtf.reduce_sum(x, output_shape=x.shape.dims[::4])), "at least 3 dimensions"),
    ],
)
def test_wrong_calls(norm, message):
    with pytest.raises(mi.ShapeError, match=message):
        mi.Program(norm, {"x": SHAPE})


@pytest.mark.parametrize(
    ("norm", "shape", "is_legal"),
    [
        (lambda x: mi.ops.instance_norm(x, name="norm"), "batch:3,x:1,y:1,channels:4", False),
        (lambda x: mi.ops.instance_norm(x, name="norm"), "batch:1,x:2,y:1,channels:1", True),
        (lambda x: mi.ops.group_norm(x, 4, name="norm"), "batch:3,x:1,channels:4", False),
        (lambda x: mi.ops.group_norm(x, 2, name="norm"), "batch:3,x:1,channels:4", True),
        (lambda x: mi.ops.layer_norm(x, name="norm"), "batch:3,x:5,channels:1", False),
        (lambda x: mi.ops.batch_norm(x, True, name="norm"), "batch:1,x:1,channels:4", False),
        (lambda x: mi.ops.batch_norm(x, True, name="norm"), "batch:2,x:1,channels:4", True),
        (lambda x: mi.ops.batch_norm(x, False, name="norm"), "batch:1,x:1,channels:4", True),
    ],
)
def test_a_norm_of_one_value_is_refused(norm, shape, is_legal):
    """Its result is the offset, and its gradient with respect to the input is 0, as in PyTorch, which refuses it."""

    def fn(x):
        with tf.compat.v1.variable_scope("level"):
            return norm(x)

    if is_legal:
        trace_only(fn, {"x": shape})
        return
    with pytest.raises(mi.ShapeError) as error:
        trace_only(fn, {"x": shape})
    assert re.search(rf"_norm 'level/norm' has only one value .* input is \[{shape}\], .* Fix: use", str(error.value))
