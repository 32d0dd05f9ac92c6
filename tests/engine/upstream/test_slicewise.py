"""Functions of slices: their gradients never vanish, sum over uneven slices, and are those that a function defines."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.upstream import slicewise
from tests import poison
from tests.engine.exchanges import check_exchanges

mtf = mi.mtf
SHAPE = ("x:7,y:4,channels:3", "float64")
# x:7 over 3 are slices of 3, 3, 1; over 5 of 2, 2, 2, 1, 0.
SETUPS = [
    ("", "", "stacked"),
    ("rows:3,cols:2", "x:rows,y:cols", "stacked"),
    ("rows:5,cols:2", "x:rows,y:cols", "stacked"),
    ("rows:5,cols:3", "x:rows,channels:cols", "placement"),
]


def _run(fn, setup, **values):
    specs = {
        name: (",".join(f"{d}:{n}" for d, n in zip(dims, value.shape)), "float64")
        for name, (dims, value) in values.items()
    }
    program = mi.Program(fn, specs, *setup)
    check_exchanges(program, fn, specs)
    return [np.array(value) for value in program(**{name: value for name, (_, value) in values.items()})]


def _both(y, inputs):
    """Returns gradients of the sum of squares, and the gradients of the sum of their squares."""
    first = mtf.gradients([mtf.reduce_sum(mtf.square(y))], inputs)
    second = mtf.gradients([mtf.add_n([mtf.reduce_sum(mtf.square(g)) for g in first])], inputs)
    return *first, *second


def _tf_both(fn, *values):
    values = [tf.constant(value) for value in values]
    with tf.GradientTape() as outer:
        outer.watch(values)
        with tf.GradientTape() as inner:
            inner.watch(values)
            total = tf.reduce_sum(fn(*values) ** 2)
        first = inner.gradient(total, values)
        total = tf.add_n([tf.reduce_sum(g**2) for g in first])
    return *first, *outer.gradient(total, values)


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_the_gradient_of_a_broadcast_input_is_summed_over_uneven_slices(setup):
    """The derivative of the logarithm is infinite at 0, the value that an undefined element may have."""
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(0.5, 2, (7, 4, 3)), rng.uniform(0.5, 2, 3), rng.uniform(0.5, 2, 7)

    def fn(a, b, c):
        y = mtf.cwise(lambda u, v, w: tf.math.log(u) * tf.sinh(v) / w[:, None, None], [a, b, c])
        return _both(y, [a, b, c])

    values = _run(fn, setup, a=(("x", "y", "channels"), a), b=(("channels",), b), c=(("x",), c))
    expected = _tf_both(lambda u, v, w: tf.math.log(u) * tf.sinh(v) / w[:, None, None], a, b, c)
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-10)


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_a_function_keeps_the_gradient_that_it_defines(setup):
    @tf.custom_gradient
    def doubled(u):
        return tf.sin(u), lambda dy: 2 * dy * tf.cos(u)

    @tf.function
    def within_a_call(u):
        return doubled(u) * u

    x = np.random.default_rng(0).standard_normal((7, 4, 3))

    def fn(x):
        tensors = [
            mtf.cwise(each, [x]) for each in (doubled, within_a_call, lambda u: tf.grad_pass_through(tf.round)(u))
        ]
        return [mtf.gradients([mtf.reduce_sum(y)], [x])[0] for y in tensors]

    first, second, third = _run(lambda x: tuple(fn(x)), setup, x=(("x", "y", "channels"), x))
    np.testing.assert_allclose(first, 2 * np.cos(x), rtol=1e-12)
    np.testing.assert_allclose(second, 2 * np.cos(x) * x + np.sin(x), rtol=1e-12)
    np.testing.assert_array_equal(third, np.ones_like(x))


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_the_gradient_is_zero_if_the_function_does_not_depend_on_an_input(setup):
    a, b = np.random.default_rng(0).standard_normal((2, 7, 4, 3))

    def fn(a, b):
        unused = mtf.cwise(lambda u, v: tf.sinh(u), [a, b])
        stopped = mtf.cwise(lambda u, v: u * tf.stop_gradient(v), [a, b])
        linear = mtf.cwise(lambda u: 3 * u, [a])
        (first,) = mtf.gradients([mtf.reduce_sum(linear)], [a])
        seconds = mtf.gradients([mtf.reduce_sum(first * first)], [a])
        return (
            *mtf.gradients([mtf.reduce_sum(unused)], [a, b]),
            *mtf.gradients([mtf.reduce_sum(stopped)], [a, b]),
            *seconds,
        )

    dims = ("x", "y", "channels")
    du, dv, ds, dt, second = _run(fn, setup, a=(dims, a), b=(dims, b))
    np.testing.assert_allclose(du, np.cosh(a))
    np.testing.assert_allclose(ds, b)
    for zero in (dv, dt, second):
        np.testing.assert_array_equal(zero, np.zeros_like(a))


@pytest.mark.parametrize("setup", SETUPS[1:], ids=str)
def test_the_gradients_of_results_of_different_splits_are_added(setup):
    """The first result is split like `a`, the second one like `b`."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, 4, 3)), rng.standard_normal(3)

    def fn(a, b):
        shapes = [a.shape, b.shape]
        y, z = mtf.slicewise(lambda u, v: (tf.sinh(u) * v, tf.exp(v)), [a, b], shapes, [a.dtype] * 2, a.shape.dims)
        return mtf.gradients([mtf.reduce_sum(y) + mtf.reduce_sum(z)], [a, b])

    da, db = _run(fn, setup, a=(("x", "y", "channels"), a), b=(("channels",), b))
    np.testing.assert_allclose(da, np.cosh(a) * b, rtol=1e-12)
    np.testing.assert_allclose(db, np.sinh(a).sum((0, 1)) + np.exp(b), rtol=1e-12)


@pytest.mark.parametrize("setup", SETUPS[1:3], ids=str)
def test_a_function_with_a_gradient_of_its_own_gets_slices(setup):
    """A reversal of an axis is not elementwise, so it must not be applied to the stack of all slices."""
    x, weights = np.random.default_rng(0).standard_normal((2, 7, 4, 3))

    def reverse(t, grad_function=None):
        return mtf.slicewise(
            lambda u: tf.reverse(u, [2]), [t], splittable_dims=t.shape.dims[:2], grad_function=grad_function
        )

    def fn(x, w):
        y = reverse(x, lambda op, dy: [3.0 * reverse(dy)])
        return y, *mtf.gradients([mtf.reduce_sum(y * w)], [x])

    dims = ("x", "y", "channels")
    y, dx = _run(fn, setup, x=(dims, x), w=(dims, weights))
    np.testing.assert_array_equal(y, x[..., ::-1])
    np.testing.assert_array_equal(dx, 3 * weights[..., ::-1])


@pytest.mark.parametrize("value", [0, poison.INTEGER])
@pytest.mark.parametrize("mesh", ["rows:3", "rows:5"])
def test_tails_have_no_integers_that_a_function_refuses(monkeypatch, mesh, value):
    """TensorFlow refuses a divisor of 0 and an index outside of a table, so the tails must not have either."""
    monkeypatch.setattr(poison, "INTEGER", value)
    a, b, table = np.arange(5, 26, 3), np.arange(1, 8), np.arange(8) ** 2

    def fn(a, b):
        quotient = mtf.cwise(lambda u, v: u // v, [a, b])
        return quotient, a // b, a % b, 50 // b, mtf.cwise(lambda v: tf.gather(tf.constant(table, tf.int32), v), [b])

    results = mi.Program(fn, {"a": ("x:7", "int32"), "b": ("x:7", "int32")}, mesh, "x:rows")(a=a, b=b)
    for result, expected in zip(results, (a // b, a // b, a % b, 50 // b, table[b]), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_lost_path_is_an_error(monkeypatch):
    """Without nodes of their own, arguments are reshapes, and an elementwise function is computed from their source."""
    monkeypatch.setattr(slicewise, "_argument", lambda mesh, op, x: x)

    def fn(x):
        y = mtf.sin(mtf.reshape(x, mtf.Shape([mtf.Dimension("all", 84)])))
        return mtf.gradients([mtf.reduce_sum(y)], [x])[0]

    with pytest.raises(RuntimeError, match=r"SlicewiseOperation 'sin'.*the graph has no path between them"):
        mi.Program(fn, {"x": SHAPE})
