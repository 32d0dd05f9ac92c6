"""Operations of mesh_tensorflow on uneven slices: values and gradients equal the results on one processor."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from tests import poison
from tests.engine.exchanges import check_exchanges
from tests.engine.upstream.even import with_gradients
from tests.engine.upstream.uneven import OPS, REDUCTIONS, SHAPE, B, C, Dim, Shape, X, over

mtf = mi.mtf

# x:7 over 3, 5 or 4 processors: slices of 3, 3, 1; of 2, 2, 2, 1, 0; and of 2, 2, 2, 1.
# y:5 over 2 or 4 processors: slices of 3, 2; and of 2, 2, 1, 0.
# All operations run under the first setup, every second one under the second, and every third one under the others.
SETUPS = {
    ("rows:3,cols:2", "x:rows,y:cols", "stacked", 1): tuple(OPS),
    ("rows:5,cols:4", "x:rows,y:cols", "stacked", 1): tuple(OPS)[::2],
    ("rows:3,cols:2", "x:rows,y:cols", "placement", 6): tuple(OPS)[::3],
    ("cores:2,rows:4", "batch:cores,x:rows", "placement", 8): tuple(OPS)[1::3],
    ("m:4,spare:3,k:5", "channels:m,x:k", "placement", 2): tuple(OPS)[2::3],
}


def devices(number):
    return [f"CPU:{i}" for i in range(number)]


def inputs():
    """Returns two inputs in which no two values are equal, so every maximum is unique."""
    rng = np.random.default_rng(0)
    return (rng.permutation(630).reshape(3, 7, 5, 6) / 630 - 0.5 for _ in range(2))


@functools.cache
def _results(mesh_shape, layout, mesh_impl, num_devices, ops=tuple(OPS)):
    """Returns {name: [value, gradient with respect to a, gradient with respect to b]} under a layout."""
    fn, specs = with_gradients({name: OPS[name] for name in ops}), {"a": (SHAPE, "float64"), "b": (SHAPE, "float64")}
    program = mi.Program(fn, specs, mesh_shape, layout, mesh_impl, devices(num_devices))
    # A deferred sum whose uneven slices are masked is computed once more than `exchanges` states, in attention.
    if layout != "channels:m,x:k":
        check_exchanges(program, fn, specs)
    a, b = inputs()
    return {name: [value.numpy() for value in values] for name, values in program(a=a, b=b).items()}


def _table():
    for number, (setup, ops) in enumerate(SETUPS.items()):
        for name in ops:
            yield pytest.param(name, setup, id=f"{setup}-{name}", marks=[pytest.mark.slow] if number else [])


def test_every_operation_occurs_on_every_mesh_implementation():
    for mesh_impl in ("stacked", "placement"):
        assert {name for setup, ops in SETUPS.items() for name in ops if setup[2] == mesh_impl} == set(OPS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setup"), list(_table()))
def test_equals_whole(name, setup):
    values, whole = _results(*setup, SETUPS[setup])[name], _results("", "", "stacked", 1)[name]
    for value, expected in zip(values, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_reductions_ignore_infinite_tails(infinity):
    """Kernels of a maximum or a minimum may ignore NaN."""
    whole = _results("", "", "stacked", 1)
    with poison.filled_with(infinity):
        split = _results.__wrapped__("rows:5,cols:4", "x:rows,y:cols", "stacked", 1, tuple(REDUCTIONS))
    for name in REDUCTIONS:
        for value, expected in zip(split[name], whole[name], strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_some_operations_against_numpy():
    # The test above compares with one processor, so its results must be correct.
    whole, (a, b) = _results("", "", "stacked", 1), inputs()
    np.testing.assert_allclose(whole["einsum over x"][0], np.einsum("bxyc,bxyc->byc", a, b))
    np.testing.assert_allclose(whole["shift by 3 with wrap"][0], np.roll(a, 3, 1) * b)
    np.testing.assert_allclose(whole["cumsum along x"][0], np.cumsum(a, 1) * b)
    np.testing.assert_allclose(whole["exchange of splits"][0], (a * b).reshape(3, 7, 5, 6) * 2)
    largest = -np.sort(-(a - 2), 1)[:, :2].transpose(0, 2, 3, 1)
    np.testing.assert_allclose(whole["top_k of 2"][0], largest * b.sum((0, 1, 3))[:, None, None])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("mesh_impl", "num_devices"), [("stacked", 1), ("placement", 2), ("placement", 8)])
def test_tensors_of_every_dtype_are_imported_and_exported(dtype, mesh_impl, num_devices):
    x = tf.cast(np.arange(5 * 3).reshape(5, 3) % 7, dtype)
    specs, layout = {"x": ("x:5,y:3", dtype)}, ("rows:4,cols:2", "x:rows,y:cols")
    program = mi.Program(lambda x: x, specs, *layout, mesh_impl, devices(num_devices))
    np.testing.assert_array_equal(program(x=x), x)
    assert program.slice_shape("x") == [2, 2]


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 7), (7, 3), (8, 9)])
def test_a_sum_of_any_size(sizes, mesh_impl):
    x = np.arange(1.0, 1 + np.prod(sizes)).reshape(sizes)
    spec = {"x": (f"x:{sizes[0]},y:{sizes[1]}", "float64")}
    program = mi.Program(
        lambda x: (mtf.reduce_sum(x), mtf.reduce_max(-x), mtf.reduce_min(x, reduced_dim=x.shape.dims[0])),
        spec,
        "rows:4,cols:5",
        "x:rows,y:cols",
        mesh_impl,
    )
    total, largest, least = program(x=x)
    assert (total, largest) == (x.sum(), -1)
    np.testing.assert_array_equal(least, x.min(0))


# Variables.


def _counting(x):
    counter = mtf.get_variable(x.mesh, "counter", x.shape, dtype=x.dtype, initializer=tf.zeros_initializer())
    weights = mtf.get_variable(
        x.mesh, "weights", x.shape.dims[:1], dtype=x.dtype, initializer=tf.random_normal_initializer()
    )
    mtf.assign_add(counter, x * weights)
    return counter * 2 + weights


@pytest.mark.parametrize(("mesh_impl", "num_devices"), [("stacked", 1), ("placement", 2), ("placement", 8)])
def test_variables_are_whole(mesh_impl, num_devices):
    x, spec = np.arange(35.0).reshape(7, 5), {"x": ("x:7,y:5", "float64")}
    whole = mi.Program(_counting, spec)
    split = mi.Program(_counting, spec, "rows:4,cols:2", "x:rows,y:cols", mesh_impl, devices(num_devices))
    assert split.slice_shape("counter") == [2, 3]
    for _ in range(2):
        np.testing.assert_allclose(split(x=x), whole(x=x), rtol=1e-14)
    for name, value in whole.variables.items():
        assert split.variables[name].shape == value.shape
        np.testing.assert_allclose(split.variables[name], value, rtol=1e-14)


# Random numbers.


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize(("mesh_impl", "num_devices"), [("stacked", 1), ("placement", 2), ("placement", 8)])
def test_random_numbers_do_not_depend_on_the_layout(mesh_impl, num_devices):
    def fn(x):
        return (
            mtf.random_uniform(x.mesh, x.shape, dtype=x.dtype),
            mtf.random_normal(x.mesh, x.shape, dtype=x.dtype),
            mi.ops.dropout(x, 0.5, name="dropout"),
            mtf.dropout(x, is_training=True, keep_prob=0.5),
            mtf.gradients([mtf.reduce_sum(mi.ops.dropout(x, 0.3) * mi.ops.dropout(x, 0.4))], [x])[0],
        )

    x, spec = np.arange(1.0, 71).reshape(2, 7, 5), {"x": ("batch:2,x:7,y:5", "float64")}
    split = mi.Program(fn, spec, "rows:4,cols:2", "x:rows,y:cols", mesh_impl, devices(num_devices))(x=x)
    for value, expected in zip(split, mi.Program(fn, spec)(x=x), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-14)  # a vectorized normal number differs in its last bit


# What is refused.


def _filter(x):
    return mtf.get_variable(x.mesh, "filter", Shape([Dim("fx", 3), Dim("fy", 3), C, Dim("out", 2)]))


@pytest.mark.parametrize(
    ("fn", "layout", "fix"),
    [
        (lambda x: mtf.layers.conv2d(x, Dim("out", 2)), "x:rows", "mi.ops.conv2d"),
        (lambda x: mtf.layers.conv2d(x, Dim("out", 2)), "batch:rows", "mi.ops.conv2d"),
        (lambda x: mtf.layers.max_pool2d(x, (7, 1)), "x:rows", "mi.ops.max_pool2d"),
        (lambda x: mtf.layers.max_pool2d(x, (7, 5)), "batch:rows", "mi.ops.max_pool2d"),
        (lambda x: mtf.layers.conv1d(over(x, B, X, C), Dim("out", 2)), "batch:rows", "mi.ops.conv1d"),
        (lambda x: mi.ops.softmax(x, C), "channels:rows", "channels:rows"),
        (lambda x: mi.ops.conv2d(x, _filter(x)), "fx:rows", "fx:rows"),
        (lambda x: mtf.rename_dimension(x, "y", "u"), "x:rows,u:rows", "give one of them another mesh dimension"),
    ],
)
def test_other_splits_are_refused(fn, layout, fix):
    with pytest.raises(mi.LayoutError) as error:
        mi.Program(fn, {"x": SHAPE}, "rows:4", layout)
    assert "Fix: " in str(error.value)
    assert fix in str(error.value)


# Any reshape.


@st.composite
def _shapes(draw, total):
    """Draws the sizes of up to four dimensions, with names of which the layout splits x, y and u."""
    sizes = []
    for _ in range(draw(st.integers(0, 3))):
        sizes.append(draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0])))
        total //= sizes[-1]
    names = draw(st.permutations(["x", "y", "v", "w"] if draw(st.booleans()) else ["u", "y", "v", "w"]))
    return tuple(zip(names, [*sizes, total]))


@st.composite
def any_reshapes(draw):
    total = draw(st.sampled_from([6, 12, 30, 35, 36, 60, 70]))
    return draw(_shapes(total)), draw(_shapes(total))


@pytest.mark.slow
@settings(max_examples=80)
@given(any_reshapes(), st.integers(2, 5), st.integers(2, 4), st.sampled_from(["stacked", "placement"]))
def test_any_reshape(shapes, rows, cols, mesh_impl):
    before, after = shapes
    names = {name for name, _ in before + after}
    layout = ",".join(f"{dim}:{rule}" for dim, rule in [("x", "rows"), ("u", "rows"), ("y", "cols")] if dim in names)
    assume(layout)

    def fn(x):
        return mtf.reshape(x * 2, Shape([Dim(*dim) for dim in after])) + 1

    x = np.arange(np.prod([n for _, n in before])).reshape([n for _, n in before])
    specs = {"x": (",".join(f"{name}:{n}" for name, n in before), "int32")}
    program = mi.Program(fn, specs, f"rows:{rows},cols:{cols}", layout, mesh_impl)
    if mesh_impl == "placement" and program.mesh_impl.grid.stack_size == 1:
        check_exchanges(program, fn, specs)
    np.testing.assert_array_equal(program(x=x), (x * 2).reshape([n for _, n in after]) + 1)
